from shop.till import total

print(total([("tea", 2), ("bread", 1)]))
