"""From what passes of ranks made visible to slices, to what goes on in requests, and to counters."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from actors.names import DECODE, PREFILL
from actors.timeline.events import EventWriter, microseconds
from actors.timeline.ranks import RankTrack
from actors.timeline.requests import Moment, RequestTrack
from messages.passes import PassOutputs
from messages.requests import Status


class PassReader:
    """Reads the outputs of all ranks in order.

    requests: those that have arrived and not ended, by ordinal. end: called with the ordinal of one that ends, with
    the time, its status and the reason.
    """

    def __init__(
        self,
        writer: EventWriter,
        requests: Mapping[int, RequestTrack],
        end: Callable[[int, int, str, str | None], None],
    ) -> None:
        self._writer = writer
        self._requests = requests
        self._end = end

    def read(self, outputs: PassOutputs, rank: RankTrack, start_us: int | None) -> None:
        """What ended passes of a rank come to. start_us: start of the first; None where there was no pass."""
        ends_ms = outputs.ends_ms
        passes = len(ends_ms)
        end_us = microseconds(ends_ms[-1])
        begun_us = end_us if start_us is None else start_us
        arrived = self._admit(outputs, rank, begun_us)
        for ordinal in outputs.preempted:
            request = self._requests[ordinal]
            request.running = request.prefilling = False
            request.enter("preempted", begun_us)
        lost = len(outputs.preempted)
        rank.move(begun_us, running=len(outputs.admissions) - lost, waiting=lost - len(outputs.admissions))
        emitted = built = tokens = 0
        if outputs.pool != PREFILL.label:
            # The tokens of the pool that prefills are seen by nobody.
            emitted, built = self._emit(outputs, rank, microseconds(ends_ms[0]))
            tokens = sum([count for _, count in outputs.bursts]) if outputs.bursts else emitted
        if start_us is not None:
            self._write_slices(outputs, rank, start_us, end_us, emitted, built, tokens)
            rank.passes += passes
        for ordinal, source in arrived:
            self._writer.flow("handoff", ordinal, source, (rank.thread, begun_us))
        if outputs.terminals and outputs.pool != PREFILL.label:
            holds_us = end_us
        else:
            # Nobody gives anything back at the end, and the last pass had its blocks from its start.
            holds_us = begun_us if passes == 1 else microseconds(ends_ms[-2])
        rank.hold(holds_us, outputs.gauges, begun_us)
        if lost:
            rank.preempt(begun_us, [self._requests[ordinal].name for ordinal in outputs.preempted])
        if outputs.terminals:
            self._terminate(outputs, rank, begun_us, end_us)
        else:
            rank.catch_up(end_us)

    def _admit(self, outputs: PassOutputs, rank: RankTrack, at_us: int) -> list[tuple[int, Moment]]:
        """Note who was admitted. Returns (ordinal, where its prompt was built) of those that were handed over."""
        arrived: list[tuple[int, Moment]] = []
        where = f'"rank":"{outputs.pool} {rank.thread.name}"'
        for admission in outputs.admissions:
            request = self._requests[admission.ordinal]
            request.running = True
            if outputs.pool == DECODE.label and not request.handed_over:
                request.handed_over, request.prefilling = True, False
                request.enter("decode", at_us, where)
                if request.source is not None:
                    arrived.append((admission.ordinal, request.source))
                continue
            request.prefilling = True
            request.enter("prefill", at_us, f'{where},"reused_tokens":{admission.reused_tokens}')
        return arrived

    def _emit(self, outputs: PassOutputs, rank: RankTrack, at_us: int) -> tuple[int, int]:
        """Note who emits tokens. Returns (requests that do, those whose prompt was not built before)."""
        requests, emitting = self._requests, rank.emitting
        beginning = []
        for ordinal in outputs.paused:
            emitting.discard(ordinal)
            request = requests[ordinal]
            request.tokens += rank.passes - request.emits_from
        for ordinal in outputs.resumed:
            emitting.add(ordinal)
            request = requests[ordinal]
            request.emits_from = rank.passes
            beginning.append(request)
        for ordinal, tokens in outputs.bursts:
            request = requests[ordinal]
            request.tokens += tokens
            beginning.append(request)
        built = 0
        for request in beginning:
            if request.prefilling:
                request.prefilling = False
                request.enter("decode", at_us)
                built += 1
        return len(outputs.bursts) or len(emitting), built

    def _write_slices(
        self, outputs: PassOutputs, rank: RankTrack, start_us: int, end_us: int, emitted: int, built: int, tokens: int
    ) -> None:
        passes = len(outputs.ends_ms)
        writer, thread, prompt_tokens = self._writer, rank.thread, outputs.committed_prefill_tokens
        if not prompt_tokens:
            kind = "decode" if emitted else "other"
            args = f'"passes":{passes},"decode_requests":{emitted},"output_tokens":{tokens * passes}'
            writer.slice(thread, kind, start_us, end_us, args)
            return
        decoding = emitted - built
        args = f'"passes":1,"prompt_tokens":{prompt_tokens},"admitted":{len(outputs.admissions)}'
        kind = "prefill"
        if decoding:
            kind = "mixed"
            args += f',"decode_requests":{decoding}'
        first_us = microseconds(outputs.ends_ms[0])
        writer.slice(thread, kind, start_us, first_us, f'{args},"output_tokens":{tokens}')
        if passes > 1:
            # Passes that only decode follow the one that computed prompts.
            args = f'"passes":{passes - 1},"decode_requests":{emitted},"output_tokens":{tokens * (passes - 1)}'
            writer.slice(thread, "decode", first_us, end_us, args)

    def _terminate(self, outputs: PassOutputs, rank: RankTrack, start_us: int, end_us: int) -> None:
        ran, held = 0, []
        for terminal in outputs.terminals:
            request = self._requests[terminal.ordinal]
            ran += request.running
            request.running = False
            if terminal.ordinal in rank.emitting:
                rank.emitting.remove(terminal.ordinal)
                request.tokens += rank.passes - request.emits_from
            if outputs.pool != PREFILL.label:
                self._end(terminal.ordinal, end_us, terminal.status.value, terminal.reason)
            elif terminal.status is Status.COMPLETED:
                request.source = Moment(rank.thread, max(start_us, end_us - 1))
                request.enter("reserve", end_us)
                held.append(terminal.ordinal)
        rank.move(end_us, running=-ran, waiting=ran - len(outputs.terminals), held=held)
