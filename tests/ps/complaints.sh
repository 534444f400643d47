# Sourced by scripts that look at what processes have logged.

# complaints FILE: its lines, but for what a loaded machine may cause.
complaints() {
  grep -v -e 'has been silent for' -e 'speaks again after' -e 'Finalize(0) waits for customer' "$1" || true
}
