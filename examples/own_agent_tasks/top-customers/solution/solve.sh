python3 - <<'END'
import csv
from collections import Counter

sums = Counter()
with open("/app/orders.csv", newline="") as lines:
    for row in csv.DictReader(lines):
        sums[row["customer"]] += float(row["amount"])
with open("/app/top.txt", "w") as out:
    out.writelines(f"{name}\n" for name, _ in sums.most_common(3))
END
