#!/bin/bash
# Copy every file below FROM to the same place below TO.
from=$1
to=$2
for file in $(find $from -type f); do
  place=$to/${file#$from/}
  mkdir -p $(dirname $place)
  cp $file $place
done
