"""Runs the shards of a planned job with Dask: python dask_job.py JOB SHARDS"""

import subprocess
import sys

from dask.distributed import Client, LocalCluster

if __name__ == "__main__":
    job, count = sys.argv[1], int(sys.argv[2])
    lines = [["haul", "job", "shard", "--quiet", job, str(number)] for number in range(count)]
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        client.gather(client.map(subprocess.check_call, lines, pure=False, retries=3))
    subprocess.check_call(["haul", "job", "finish", job])
