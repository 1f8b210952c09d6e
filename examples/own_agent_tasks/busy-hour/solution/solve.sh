while read -r time _; do date -u -d "$time" +%H; done < /app/requests.log | sort | uniq -c | sort -rn | head -n 1 |
  awk '{print $2}' > /app/hour.txt
