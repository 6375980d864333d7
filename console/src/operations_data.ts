/** Reads the server's metrics for the page Operations: their history first, then the newest values again and again. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { connection, serverNow } from './client.ts';
import { MetricsSeries, PAUSE_MS } from './metrics_series.ts';
import { AROUND, Failure, getJson, getPlain, problemOfError, pollWhileVisible } from './objects.ts';
import { Poller, type Reading } from './poll.ts';
import { parseMetrics } from './prometheus.ts';
import type { Currency } from './parts.tsx';

export const INTERVAL_MS = 2000;

/** What the page shows over time. All others begin when the page opens. */
const NAMES = [
  'process_cpu_seconds_total',
  'process_resident_memory_bytes',
  'swiftwater_log_bytes_total',
  'swiftwater_log_queued_bytes',
  'swiftwater_log_sync_seconds_total',
  'swiftwater_log_syncs_total',
  'swiftwater_queries',
  'swiftwater_record_bytes_out_total',
  'swiftwater_records_dropped_total',
  'swiftwater_records_out_total',
  'swiftwater_shard_busy_seconds_total',
  'swiftwater_shard_events_total',
  'swiftwater_shard_up_seconds_total',
  'swiftwater_stream_bytes_total',
  'swiftwater_stream_events_total',
];
const HISTORY = `v1/metrics/history?prefix=swiftwater_read_to_match_seconds&name=${NAMES.join(',')}`;

export interface Metrics extends Currency {
  data: MetricsSeries | null;
  /** Rises with each reading. */
  version: number;
}

/** The metrics, read as long as the component is mounted and the page is visible. */
export function useMetrics(): Metrics {
  const [state, setState] = useState<{ reading: Reading<MetricsSeries>; version: number }>({ reading: { data: null, at: null, failure: null, staleSince: null }, version: 0 });
  const poller = useRef<Poller<MetricsSeries> | null>(null);
  useEffect(() => {
    const series = new MetricsSeries();
    // The server's clock, from its history where no connection has told it.
    let aheadMs: number | null = null;
    const clock = () => ((connection.value?.hello ?? null) !== null || aheadMs === null ? serverNow() : Date.now() + aheadMs);
    const read = async (signal: AbortSignal) => {
      const newest = series.times[series.times.length - 1];
      if (newest === undefined || clock() - newest > PAUSE_MS) {
        const history = await getJson(HISTORY, signal).catch((error: unknown) => {
          // A server may have no history; then the curves begin now.
          if (error instanceof Failure && error.problem.status >= 400) return null;
          throw error;
        });
        if (history !== null && typeof history === 'object' && !Array.isArray(history) && typeof history.now === 'string') aheadMs = Date.parse(history.now) - Date.now() || 0;
        series.begin(history);
      }
      const text = await getPlain('metrics', signal);
      series.add(clock(), parseMetrics(text));
      return series;
    };
    const current = new Poller<MetricsSeries>(AROUND, read, INTERVAL_MS, (reading) => setState(({ version }) => ({ reading, version: version + 1 })));
    poller.current = current;
    return pollWhileVisible(current);
  }, []);
  const { data, failure, staleSince } = state.reading;
  return { data, version: state.version, problem: failure === null ? null : problemOfError(failure), staleSince, again: () => poller.current?.now() };
}
