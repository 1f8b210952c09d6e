cat > /app/median.py <<'END'
import statistics
import sys

numbers = [float(line) for line in sys.stdin if line.strip()]
if not numbers:
    sys.exit(1)
print(f"{statistics.median(numbers):.2f}")
END
