reward=0
if [ "$(cat /app/measured.csv)" = "$(cat /tests/expected.csv)" ]; then
  reward=1
else
  echo "/app/measured.csv is missing, or is not the table that was asked for"
fi
echo $reward > /logs/verifier/reward.txt
