reward=0
if [ "$(cat /app/top.txt)" = "$(cat /tests/expected.txt)" ]; then
  reward=1
else
  echo "/app/top.txt is missing, or does not hold the three right names in their order"
fi
echo $reward > /logs/verifier/reward.txt
