reward=0
if [ "$(cat /app/errors.txt)" = 5 ]; then
  reward=1
else
  echo "/app/errors.txt is missing, or does not hold the right number"
fi
echo $reward > /logs/verifier/reward.txt
