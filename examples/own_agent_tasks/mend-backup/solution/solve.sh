cat > /app/backup.sh <<'END'
#!/bin/bash
# Copy every file below FROM to the same place below TO.
from=$1
to=$2
find "$from" -type f -print0 | while IFS= read -r -d '' file; do
  place=$to/${file#"$from"/}
  mkdir -p "$(dirname "$place")"
  cp "$file" "$place"
done
END
