"""The batch lane: long files cut at silences, transcribed over many workers, stitched, inspected, repaired, written."""
