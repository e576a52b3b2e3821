#!/bin/sh
# Installs the named Debian packages that are missing; without root it says what is missing and goes on.
set -eu
missing=""
for package in "$@"; do
  dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" -ne 0 ]; then
  echo "missing Debian packages:$missing" >&2
  echo "install them with: sudo apt-get install$missing" >&2
  exit 0
fi
# The packages' own services are not started: the demo and the tests run private daemons.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod +x "$policy"
  trap 'rm -f "$policy"' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
step=$(dirname "$0")/step.sh
sh "$step" "lists of Debian packages" apt-get update -q
# Soon after its start a machine may still be installing packages of its own accord: wait for that.
# shellcheck disable=SC2086
sh "$step" "Debian packages:$missing" apt-get install -y -q -o DPkg::Lock::Timeout=300 --no-install-recommends $missing
