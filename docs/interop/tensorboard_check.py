"""Reads event files with TensorBoard's own reader and checks that no curve has a step twice.

    python docs/interop/tensorboard_check.py RUN/tensorboard
"""
import glob, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

folder = sys.argv[1]
board = EventAccumulator(folder, size_guidance={"scalars": 0})
board.Reload()
for tag in board.Tags()["scalars"]:
    points = board.Scalars(tag)
    steps = [point.step for point in points]
    assert steps == sorted(set(steps)), f"{tag}: {steps}"
    print(f"{tag}: {len(points)} points, steps {steps[0]} to {steps[-1]}, last value {points[-1].value:.6g}")
# The accumulator forgives much; what is in the files must be right without its help.
events = [event for file in glob.glob(f"{folder}/*tfevents*") for event in EventFileLoader(file).Load()]
raw = [(event.step, value.tag) for event in events for value in event.summary.value]
kept = sum(len(board.Scalars(tag)) for tag in board.Tags()["scalars"])
assert len(raw) == len(set(raw)) == kept, "a step is there twice"
print(f"{len(raw)} points in the files, each once")
