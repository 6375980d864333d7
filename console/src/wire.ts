/** The messages between the page and its worker. */
import type { ConnectionState } from './connection.ts';
import type { AnswerOf } from './dashboards/answers.ts';
import type { Format } from './export.ts';
import type { Form } from './fragment.ts';
import type { Json } from './json.ts';
import type { Picture, View } from './picture.ts';
import type { Question } from './protocol.ts';

export type ToWorker =
  | { do: 'begin'; base: string }
  | { do: 'ask'; result: number; question: Question }
  /** Shows an answer that was saved. Nothing is asked; with `resume` a query that still runs is taken up. */
  | { do: 'restore'; result: number; question: Question; answer: string; resume: boolean }
  /** Shows the result `of` once more with a view of its own. It is asked once, and ends with `of`. */
  | { do: 'watch'; result: number; of: number }
  /** Shows an answer that the page has read. An answer of one row continues the result, any other replaces it.
   * `columns` is the field `Swiftwater-Columns` of the answer. */
  | { do: 'answer'; result: number; of: AnswerOf; question: Question; form: Form | null; text: string; columns: string | null }
  | { do: 'save'; request: number; result: number; lengthMax: number }
  | { do: 'stop'; result: number }
  | { do: 'forget'; result: number }
  | { do: 'view'; result: number; view: View }
  /** The last picture of this result is drawn: the next may come. */
  | { do: 'drawn'; result: number }
  | { do: 'streams'; on: boolean }
  | { do: 'value'; request: number; result: number; sequence: number; row: number; column: string }
  | { do: 'rows'; request: number; result: number; view: View; format: Format; most: number };

export interface StreamFacts {
  name: string;
  stored: boolean;
  events: number;
  rejected: number;
  newestArrival: number | null;
  eventsPerSecond: number;
  bytesPerSecond: number;
  queries: number;
  pendingBytes: number;
  lagMs: number;
  storedLagMs: number;
  sample: number | null;
}

export type FromWorker =
  | { is: 'connection'; state: ConnectionState }
  | { is: 'picture'; result: number; picture: Picture }
  | { is: 'streams'; now: number | null; streams: StreamFacts[] }
  | { is: 'answer'; request: number; parts: string[] | null };

const number = (value: Json | undefined) => (typeof value === 'number' ? value : 0);

/** A stream of `GET /v1/streams`, or null where `data` is none. */
export function readStream(data: Json): StreamFacts | null {
  if (typeof data !== 'object' || data === null || Array.isArray(data) || typeof data.name !== 'string') return null;
  const newest = typeof data.newest_arrival === 'string' ? Date.parse(data.newest_arrival) : Number.NaN;
  return {
    name: data.name,
    stored: data.stored === true,
    events: number(data.events),
    rejected: number(data.rejected),
    newestArrival: Number.isNaN(newest) ? null : newest,
    eventsPerSecond: number(data.events_per_second),
    bytesPerSecond: number(data.bytes_per_second),
    queries: number(data.queries),
    pendingBytes: number(data.pending_bytes),
    lagMs: number(data.lag_ms),
    storedLagMs: number(data.stored_lag_ms),
    sample: typeof data.sample === 'number' ? data.sample : null,
  };
}
