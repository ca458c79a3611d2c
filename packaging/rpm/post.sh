if command -v systemd-sysusers >/dev/null; then systemd-sysusers haul.conf || :; fi
if [ -d /run/systemd/system ]; then systemctl daemon-reload || :; fi
