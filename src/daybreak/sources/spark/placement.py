"""Assigns Leaders to partitions: several small Leaders share a partition, a large Leader has a dedicated one."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f


def repartition_by_leader(
    session: SparkSession, rows: DataFrame, counts: Mapping[str, int], split: Sequence[str], partition_rows: int
) -> DataFrame:
    """Repartition rows so that each Leader is in one partition. `counts` are the rows per Leader.

    Rows without a Leader are in the first partition, which counts them. Rows of `split` Leaders are excluded.
    """
    partitions_of, partitions = assign_partitions(counts, partition_rows)
    partitions_of |= dict.fromkeys(split, -1)
    assignment = session.createDataFrame(
        pa.table(
            {
                "assigned_leader": pa.array([*partitions_of], pa.string()),
                "assigned_partition": pa.array([*partitions_of.values()], pa.int32()),
            }
        )
    )
    return (
        rows.join(f.broadcast(assignment), rows["LEADER_ID"] == assignment["assigned_leader"], "left")
        .withColumn("assigned_partition", f.coalesce("assigned_partition", f.lit(0)))
        .where("assigned_partition >= 0")
        .repartitionById(partitions, "assigned_partition")
        .drop("assigned_partition", "assigned_leader")
    )


def assign_partitions(counts: Mapping[str, int], partition_rows: int) -> tuple[dict[str, int], int]:
    """Return the partition of each Leader, and the number of partitions.

    Leaders are assigned by size, largest first, because the first partitions start first. A Leader with more than
    `partition_rows` rows is alone; the others fill partitions up to that many.
    """
    partitions: dict[str, int] = {}
    partition = 0
    free_rows = partition_rows
    for leader, rows in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if free_rows < rows and free_rows < partition_rows:
            partition += 1
            free_rows = partition_rows
        partitions[leader] = partition
        free_rows -= rows
    return partitions, partition + 1
