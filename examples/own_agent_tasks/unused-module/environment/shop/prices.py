PRICES = {"tea": 3, "bread": 4}
