python3 - <<'END'
import json


def merged(below, above):
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    kept = {key: value for key, value in below.items() if key not in above}
    return kept | {key: merged(below.get(key), value) for key, value in above.items() if value is not None}


with open("/app/defaults.json") as defaults, open("/app/local.json") as local:
    found = merged(json.load(defaults), json.load(local))
with open("/app/settings.json", "w") as out:
    json.dump(found, out, indent=2)
END
