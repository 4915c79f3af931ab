"""The spool as a streaming source of Spark; an offset is the number of a segment.

Spark imports this module in its Python workers and receives rows as Arrow record batches. Times
stay int64 ticks here, because Python cannot convert the two ends of time; ``add_timestamps``
converts them inside the Java process.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf
from pyspark.sql import types as st
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow

from rxtemporal.core.batch import END, START
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.errors import SpoolError
from rxtemporal.spark.schema import arrow_schema
from rxtemporal.spark.targets.target import EDGE, STATE
from rxtemporal.spark.tasks import report_task_errors
from rxtemporal.storage.segments import SegmentFolder

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


# Fewer rows cost less than a task, so another core does not help.
ROWS_PER_TASK = 32_768


def add_timestamps(frame: DataFrame) -> DataFrame:
    """Return the rows with timestamps for ticks; a row that is open or never ends has a null end.

    Rows in edge shape also get ``_state``, "open" or "closed".
    """
    end = sf.when(sf.col(END) < MAX_TIME, sf.timestamp_micros(sf.col(END)))
    columns = {START: sf.timestamp_micros(sf.col(START)), END: end}
    if EDGE in frame.columns:
        columns[STATE] = sf.when(sf.col(END) < MAX_TIME, sf.lit("closed")).otherwise(sf.lit("open"))
    return frame.withColumns(columns)


class SpoolSource(DataSource):  # type: ignore[misc]
    """Data source; its options are ``path``, ``max_segments`` of a micro-batch, and ``tasks``."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``spark.readStream.format``."""
        return "rxtemporal_spool"

    def streamReader(self, schema: st.StructType) -> SpoolReader:  # noqa: N802 - Spark's name
        """Return the reader; ``schema`` comes from ``rxtemporal.spark.schema``."""
        return SpoolReader(dict(self.options), schema)


@dataclasses.dataclass
class SegmentRange(InputPartition):  # type: ignore[misc]
    """The segments that one task reads: ``first`` to ``last``."""

    first: int
    last: int


class SpoolReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reader of segments in order; an offset is the last segment that was read.

    ``commit`` deletes segments that Spark will not read again. The commit of a batch comes with a
    later batch, so the newest segments stay.
    """

    def __init__(self, options: dict[str, str], schema: st.StructType) -> None:
        self._folder = SegmentFolder(options["path"])
        self._most = int(options["max_segments"])
        self._tasks = int(options["tasks"])
        self._schema = schema
        self._target: int | None = None
        self._discarding: tuple[ThreadPoolExecutor, Future[None]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for the tasks, which discard nothing."""
        return {**self.__dict__, "_discarding": None}

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return the last discarded segment, which an earlier checkpoint has committed."""
        return {"segment": self._folder.bounds()[0]}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of a micro-batch; Spark knows no segments, so they count as files."""
        return ReadMaxFiles(self._most)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Return the last segment that may be read now."""
        begin, last = start["segment"], self._folder.bounds()[1]
        if begin > last:
            raise SpoolError(
                f"Spark's checkpoint has read up to segment {begin} of {self._folder.path}, which "
                f"ends at {last}: they do not belong together. Hint: delete the checkpoint."
            )
        if self._target is not None:
            last = max(begin, min(last, self._target))
        if isinstance(limit, ReadMaxFiles):
            last = min(last, begin + limit.max_files)
        return {"segment": last}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Remember the last segment to read."""
        self._target = self._folder.bounds()[1]

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[SegmentRange]:
        """Return ranges of segments, one for each task; few rows need only one task."""
        numbers = range(start["segment"] + 1, end["segment"] + 1)
        rows = sum(self._folder.describe(number).rows for number in numbers)
        tasks = min(self._tasks, len(numbers), max(1, -(-rows // ROWS_PER_TASK)))
        cuts = [len(numbers) * task // tasks for task in range(tasks + 1)] if tasks else []
        return [
            SegmentRange(numbers[low], numbers[high - 1]) for low, high in itertools.pairwise(cuts)
        ]

    def read(self, partition: SegmentRange) -> Iterator[pa.RecordBatch]:
        """Yield the record batches of a range; each segment is verified before its first row."""
        import pyarrow as pa

        wanted = arrow_schema(self._schema)
        for number in range(partition.first, partition.last + 1):
            with report_task_errors():
                content = self._folder.content(number)
            with pa.ipc.open_file(pa.py_buffer(content)) as segment:
                for index in range(segment.num_record_batches):
                    yield segment.get_batch(index).select(wanted.names).cast(wanted)

    def commit(self, end: dict[str, int]) -> None:
        """Delete the segments up to ``end`` in the background; the next call raises its error.

        Spark calls this between planning and running a micro-batch, which need not wait for the
        disk.
        """
        if self._discarding is None:
            worker = ThreadPoolExecutor(1, thread_name_prefix="rxtemporal-discard")
        else:
            worker, before = self._discarding
            before.result()
        self._discarding = worker, worker.submit(self._folder.discard, end["segment"])
