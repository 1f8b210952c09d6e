RATES = {"full": 0.2, "reduced": 0.1}
