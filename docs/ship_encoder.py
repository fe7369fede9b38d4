"""Write the encoder of a trained checkpoint, without its model, as a file that the explorer ships.

    python docs/ship_encoder.py RUN/model.safetensors src/loope/explorer/pets.safetensors

The encoders of the package were trained by `loope run swap --preset laptop`; see src/loope/explorer/SHIPPED.md.
"""

import sys
from pathlib import Path

from safetensors.torch import save

from loope.core.files import write_atomic
from loope.core.weights import WeightsFile
from loope.explorer.offsets import ENCODER, read_encoder
from loope.explorer.uploads import read_weights


def encoder_only(checkpoint: Path) -> bytes:
    """Return a safetensors file with the encoders of a file of `loope.save`, in half precision.

    Raises:
        LoopeError: if the file has no encoder that an image refines.
    """
    file = WeightsFile(checkpoint)
    kept = {name: file[name] for name in file if name.startswith(ENCODER)}
    data = save({k: v.half() if v.is_floating_point() else v for k, v in kept.items()}, file.metadata)
    read_encoder(read_weights(data))  # as the explorer will
    return data


if __name__ == "__main__":
    checkpoint, to = map(Path, sys.argv[1:])
    print(f"Written: {write_atomic(to, encoder_only(checkpoint))}, {to.stat().st_size:,} bytes")
