#!/bin/sh
# step.sh TEXT COMMAND…: runs a command quietly and prints one line with its duration. Its output goes to .setup.log, which is
# named, with its last lines, if the command fails.
set -u
text=$1
shift
log=.setup.log
begin=$(date +%s%N)
[ -t 1 ] && printf '· %s …' "$text"
{ printf '\n--- %s: %s\n' "$(date '+%F %T')" "$text"; "$@"; } >>"$log" 2>&1 </dev/null
status=$?
took=$((($(date +%s%N) - begin) / 100000000))
[ -t 1 ] && printf '\r\033[K'
if [ "$status" -eq 0 ]; then
  printf '✓ %s  %d.%d s\n' "$text" $((took / 10)) $((took % 10))
else
  printf '✗ %s failed after %d.%d s. The end of its output, all of which is in %s:\n' \
    "$text" $((took / 10)) $((took % 10)) "$PWD/$log" >&2
  tail -n 15 "$log" >&2
fi
exit "$status"
