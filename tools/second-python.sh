#!/bin/sh
# Runs unit tests on the newest supported Python besides the default one. Without one, says so in one line.
# With an argument all of them, else those of base, command line and models, which take a minute or two.
set -eu
default=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
for version in 3.14 3.13 3.12 3.11; do
  [ "$version" != "$default" ] || continue
  for python in "$(command -v "python$version" || true)" "$HOME/.pyenv/versions/$version".*/bin/"python$version"; do
    # A program of this name may be one that only says that no such version is chosen.
    [ "$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" = "$version" ] || continue
    echo "unit tests on a second Python: $version, $python"
    exec make --no-print-directory "$([ $# -gt 0 ] && echo unit || echo unit-part)" PYTHON="$python"
  done
done
echo "unit tests on a second Python: not run, no other Python from 3.11 on than $default is installed"
