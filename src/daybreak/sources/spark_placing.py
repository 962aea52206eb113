"""Which task gets which Leaders: a partition of Spark's for some, the large ones alone and first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f


def spread(
    session: SparkSession, rows: DataFrame, counts: Mapping[str, int], split: Sequence[str], partition_rows: int
) -> DataFrame:
    """One partition for some Leaders, big ones alone and first; as many as the rows ask for. Rows of no Leader, which
    are counted, are in the first; those of split Leaders are left out.
    """
    places, partitions = places_of(counts, partition_rows)
    places |= dict.fromkeys(split, -1)
    table = session.createDataFrame(
        pa.table({"placed_leader": pa.array([*places], pa.string()), "place": pa.array([*places.values()], pa.int32())})
    )
    return (
        rows.join(f.broadcast(table), rows["LEADER_ID"] == table["placed_leader"], "left")
        .withColumn("place", f.coalesce("place", f.lit(0)))
        .where("place >= 0")
        .repartitionById(partitions, "place")
        .drop("place", "placed_leader")
    )


def places_of(counts: Mapping[str, int], partition_rows: int) -> tuple[dict[str, int], int]:
    """Which partition each Leader goes to, and how many there are.

    Leaders by size, the largest first: one with more than `partition_rows` rows is alone; the others
    fill partitions up to that many. The first partitions hold the largest and so start first.
    """
    places: dict[str, int] = {}
    place = 0
    room = partition_rows
    for leader, rows in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if room < rows and room < partition_rows:
            place += 1
            room = partition_rows
        places[leader] = place
        room -= rows
    return places, place + 1
