cd /app/notes
for name in *; do
  new=$(printf %s "$name" | tr 'A-Z ' 'a-z-')
  [ "$name" = "$new" ] || mv -- "$name" "$new"
done
