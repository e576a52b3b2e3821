#!/bin/sh
# Runs a command. Under sudo, what it made in the checkout goes to the checkout's owner afterwards, so that git,
# `make check` and `make clean` work without sudo as well.
trap : INT
"$@"
status=$?
if [ -n "${SUDO_USER:-}" ] && [ "$(id -u)" -eq 0 ] && [ "$(stat -c %U .)" = "$SUDO_USER" ]; then
  # -h: links in the virtual environment lead out of the checkout.
  chown -hR --from=root "$SUDO_USER:" .
fi
exit "$status"
