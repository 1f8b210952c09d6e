grep -rhc '^[^ ]* ERROR ' /app/logs | paste -sd+ | python3 -c 'print(eval(input()))' > /app/errors.txt
