grep -v '^#' /app/measured.txt | tr ',;' '.,' > /app/measured.csv
