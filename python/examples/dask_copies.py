"""Copies directories at the same time with Dask: python dask_copies.py SOURCE... TARGET"""

import sys

import haul
from dask.distributed import Client, LocalCluster, as_completed

if __name__ == "__main__":
    *sources, target = sys.argv[1:]
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        copies = [client.submit(haul.copy, source, target, recursive=True, pure=False) for source in sources]
        for copy in as_completed(copies):
            summary = copy.result()
            print(f"{summary.files_copied} files, {summary.bytes} bytes")
