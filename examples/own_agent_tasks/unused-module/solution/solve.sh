rm /app/shop/rates.py
