reward=0
if [ "$(cat /app/report.md)" = "$(cat /tests/expected.md)" ]; then
  reward=1
else
  echo "/app/report.md is not the old text with other dates"
fi
echo $reward > /logs/verifier/reward.txt
