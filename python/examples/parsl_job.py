"""Runs the shards of a planned job with Parsl: python parsl_job.py JOB SHARDS"""

import subprocess
import sys

import parsl

run = parsl.python_app(subprocess.check_call)

if __name__ == "__main__":
    job, count = sys.argv[1], int(sys.argv[2])
    with parsl.load(parsl.Config(executors=[parsl.ThreadPoolExecutor(max_threads=2)], run_dir="parsl", retries=3)):
        shards = [run(["haul", "job", "shard", "--quiet", job, str(number)]) for number in range(count)]
        [shard.result() for shard in shards]
    subprocess.check_call(["haul", "job", "finish", job])
