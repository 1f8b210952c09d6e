python3 - <<'END'
import re

with open("/app/report.md") as lines:
    text = lines.read()
dates = re.compile(r"(?<![\d.])(\d{1,2})\.(\d{1,2})\.(\d{4})(?!\d)")
with open("/app/report.md", "w") as out:
    out.write(dates.sub(lambda found: f"{found[3]}-{int(found[2]):02}-{int(found[1]):02}", text))
END
