reward=0
if [ "$(cat /app/hour.txt)" = 09 ]; then
  reward=1
else
  echo "/app/hour.txt is missing, or does not hold the right hour"
fi
echo $reward > /logs/verifier/reward.txt
