# In Harbor this fetches pytest. Heldout has no network and runs test_outputs.py with its own pytest instead.
pip install -q pytest==8.4.2
if python3 -m pytest -q /tests/test_outputs.py; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
