"""The traffic that a scaling policy hears of: what arrived and completed since it asked last."""

from __future__ import annotations

from messages.scaling import Traffic


class _Mean:
    """A sum and how many values it has."""

    def __init__(self) -> None:
        self.total: float = 0
        self.count = 0

    def add(self, value: float) -> None:
        self.total += value
        self.count += 1

    @property
    def value(self) -> float:
        return self.total / self.count if self.count else 0.0


class TrafficWindow:
    """Adds up, from one `take` to the next."""

    def __init__(self) -> None:
        self._since_ms = 0.0
        self._clear()

    def _clear(self) -> None:
        self._arrivals = 0
        self._input_tokens, self._output_tokens = _Mean(), _Mean()
        self._ttft_ms, self._itl_ms = _Mean(), _Mean()
        self._hit_rate = _Mean()
        self._forwards = 0
        self._accepted_tokens = 0

    def arrived(self) -> None:
        """A request entered the cluster."""
        self._arrivals += 1

    def placed(self, overlap_blocks: int, prompt_blocks: int) -> None:
        """A KV router chose a rank that has so many of the blocks of a prompt."""
        if prompt_blocks > 0:
            self._hit_rate.add(overlap_blocks / prompt_blocks)

    def decoded(self, forwards: int, accepted_tokens: int) -> None:
        """Requests went through decode passes, `forwards` in all, and so many tokens were accepted."""
        self._forwards += forwards
        self._accepted_tokens += accepted_tokens

    def completed(
        self, input_tokens: int, output_tokens: int, first_ms: float, last_ms: float, arrival_ms: float
    ) -> None:
        """A request completed; the times are those of its first and last token, NaN without any."""
        self._input_tokens.add(input_tokens)
        self._output_tokens.add(output_tokens)
        if first_ms >= arrival_ms:
            self._ttft_ms.add(first_ms - arrival_ms)
        if output_tokens > 1:
            self._itl_ms.add(max(last_ms - first_ms, 0.0) / (output_tokens - 1))

    def take(self, now_ms: float) -> Traffic:
        """What happened since the last call; begin anew."""
        traffic = Traffic(
            duration_s=(now_ms - self._since_ms) / 1000.0,
            num_req=self._arrivals,
            avg_isl=self._input_tokens.value,
            avg_osl=self._output_tokens.value,
            avg_ttft_ms=self._ttft_ms.value,
            avg_itl_ms=self._itl_ms.value,
            shape_count=self._input_tokens.count,
            ttft_count=self._ttft_ms.count,
            itl_count=self._itl_ms.count,
            avg_accept_length=self._accepted_tokens / self._forwards if self._forwards else None,
            avg_kv_hit_rate=self._hit_rate.value,
            hit_rate_count=self._hit_rate.count,
            accept_length_forward_count=self._forwards,
        )
        self._since_ms = now_ms
        self._clear()
        return traffic
