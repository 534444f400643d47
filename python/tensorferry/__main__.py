"""python -m tensorferry: what this host can do."""

import sys

import tensorferry
from tensorferry import _program


def main() -> int:
    with tensorferry.Device() as device:
        facts = device.explain()
        print(f"tensorferry {tensorferry.__version__}, Python {sys.version.split()[0]}, host {facts['host'][:8]}")
        for provider in facts["providers"]:
            print(f"  {provider['name']:6} {'on ' if provider['on'] else 'off'}  {provider['detail']}")
        with tensorferry.Device(secret="a secret of this look only") as other, tensorferry.Device(
                secret="a secret of this look only") as here:
            channel = here.connect(other.endpoint)
            path = channel.explain()
            print(f"  to this host: {path['provider']}, because {path['why']}")
    print(f"  program: {_program.find() or 'not installed'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
