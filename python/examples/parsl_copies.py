"""Copies directories at the same time with Parsl: python parsl_copies.py SOURCE... TARGET"""

import sys

import haul
import parsl

copy = parsl.python_app(haul.copy)

if __name__ == "__main__":
    *sources, target = sys.argv[1:]
    with parsl.load(parsl.Config(executors=[parsl.ThreadPoolExecutor(max_threads=2)], run_dir="parsl")):
        for copied in [copy(source, target, recursive=True) for source in sources]:
            summary = copied.result()
            print(f"{summary.files_copied} files, {summary.bytes} bytes")
