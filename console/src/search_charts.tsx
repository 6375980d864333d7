/** The charts of a search: hits over time, and the events of an id on a line for each stream. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { DataTable } from './chart.tsx';
import { formatClock, formatDuration, formatNumber, formatTime, parseTime, zoneName } from './format.ts';
import { type ActivityEvent, type Interval, evenIntervals } from './search_state.ts';
import { shown } from './parts.tsx';
import { zone } from './settings.ts';
import { announce } from './ui.tsx';

const LANES_MAX = 30;

const STEPS: { [key: string]: number } = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1, PageUp: -10, PageDown: 10, Home: -1e9, End: 1e9 };

/** Moves a cursor over `count` things by the arrow keys and speaks each step; Enter chooses. */
function moved(event: KeyboardEvent, at: number | null, count: number, speak: (index: number) => string, set: (index: number) => void, choose: (index: number) => void): void {
  if (count === 0) return;
  if (event.key === 'Enter' && at !== null) {
    event.preventDefault();
    choose(at);
    return;
  }
  const step = STEPS[event.key];
  if (step === undefined) return;
  event.preventDefault();
  event.stopPropagation();
  const begin = at ?? (step > 0 ? -1 : count);
  const next = Math.max(0, Math.min(count - 1, begin + step));
  set(next);
  announce(speak(next));
}

/** Hits by interval. `onChoose` narrows the search to an interval; it is absent where its length is not known. */
export function HitsOverTime({ intervals: given, onChoose }: { intervals: readonly Interval[]; onChoose(from: number, to: number): void }): JSX.Element {
  const [at, setAt] = useState<number | null>(null);
  const [asTable, setAsTable] = useState(false);
  const timeZone = zone();
  const { intervals, stepMs } = evenIntervals(given);
  const most = intervals.reduce((a, { count }) => Math.max(a, count), 0);
  const cursor = at !== null && at < intervals.length ? at : null;
  const title = `Hits over time${stepMs > 0 ? `, intervals of ${formatDuration(stepMs)}` : ''}`;
  const first = intervals[0]?.at ?? 0;
  const last = intervals[intervals.length - 1]?.at ?? 0;
  const describe = (i: number) => {
    const interval = intervals[i];
    return interval === undefined ? '' : `${formatTime(interval.at, timeZone, false)}: ${formatNumber(interval.count)} hits`;
  };
  const choose = (i: number) => {
    const interval = intervals[i];
    if (interval !== undefined && stepMs > 0) onChoose(interval.at, interval.at + stepMs);
  };
  const summary = `${intervals.length} intervals from ${formatTime(first, timeZone, false)} to ${formatTime(last, timeZone, false)}, at most ${formatNumber(most)} hits in one.`;
  const narrow = stepMs > 0 ? ' Enter narrows the search to the interval.' : '';
  return (
    <div class="curves">
      {asTable ? (
        <DataTable caption={title} head={['interval begins', 'hits']} rows={intervals.map((interval) => [formatTime(interval.at, timeZone, false), formatNumber(interval.count)])} />
      ) : (
        <figure class="chart">
          <figcaption>
            {title} <span class="dim">times in {zoneName(last, timeZone)}</span>
          </figcaption>
          <div
            class="time-columns"
            role="group"
            tabIndex={0}
            aria-label={`Chart: ${title}. Arrow keys move the cursor.${narrow}`}
            aria-description={summary}
            onKeyDown={(event) => moved(event, cursor, intervals.length, describe, setAt, choose)}
          >
            {intervals.map((interval, i) => (
              <span key={interval.at} class={i === cursor ? 'time-column marked' : 'time-column'} title={describe(i)} onPointerEnter={() => setAt(i)} onClick={() => choose(i)}>
                <span class="time-fill" style={{ height: `${most === 0 ? 0 : Math.max(interval.count > 0 ? 2 : 0, (interval.count / most) * 100)}%` }} />
              </span>
            ))}
          </div>
          <p class="axis dim">
            <span>{formatTime(first, timeZone, false)}</span>
            <span>{cursor === null ? '' : describe(cursor)}</span>
            <span>{intervals.length > 1 ? formatTime(last, timeZone, false) : ''}</span>
          </p>
          <p class="unseen">{summary}</p>
        </figure>
      )}
      <button type="button" class="quiet as-table" aria-pressed={asTable} aria-label={`As table: ${title}`} onClick={() => setAsTable(!asTable)}>
        As table
      </button>
    </div>
  );
}

/** The events of an id: a line for each stream, a mark for each event. Enter or a click opens the event. */
export function Timeline({ events, text, onOpen }: { events: readonly ActivityEvent[]; text(event: ActivityEvent): string; onOpen(event: ActivityEvent): void }): JSX.Element {
  const [at, setAt] = useState<number | null>(null);
  const [asTable, setAsTable] = useState(false);
  const timeZone = zone();
  const times = events.map(({ time }) => parseTime(time) ?? Number.NaN);
  const known = times.filter((time) => !Number.isNaN(time));
  const first = known.reduce((a, b) => Math.min(a, b), Infinity);
  const last = known.reduce((a, b) => Math.max(a, b), -Infinity);
  const streams = [...new Set(events.map(({ stream }) => stream))];
  const place = (i: number) => (Number.isNaN(times[i] ?? Number.NaN) || last <= first ? 0 : (((times[i] as number) - first) / (last - first)) * 100);
  const cursor = at !== null && at < events.length ? at : null;
  const title = `Events by stream over ${known.length === 0 ? 'time' : formatDuration(last - first)}`;
  const describe = (i: number) => {
    const event = events[i];
    return event === undefined ? '' : `${formatClock(times[i] ?? Number.NaN, timeZone, true)} ${shown(event.stream, 40)}: ${text(event)}`;
  };
  const open = (i: number) => {
    const event = events[i];
    if (event !== undefined) onOpen(event);
  };
  /** The event of a stream that is nearest to a place on its line. */
  const nearest = (stream: string, share: number): number => {
    let best = -1;
    events.forEach((event, i) => {
      if (event.stream === stream && (best < 0 || Math.abs(place(i) - share) < Math.abs(place(best) - share))) best = i;
    });
    return best;
  };
  const summary = `${formatNumber(events.length)} events in ${formatNumber(streams.length)} streams${known.length === 0 ? '' : `, ${formatTime(first, timeZone)} to ${formatTime(last, timeZone)}`}.`;
  const pick = (event: MouseEvent & { currentTarget: HTMLElement }, stream: string) => {
    const box = event.currentTarget.getBoundingClientRect();
    return nearest(stream, ((event.clientX - box.left) / Math.max(1, box.width)) * 100);
  };
  return (
    <div class="curves">
      {asTable ? (
        <DataTable
          caption={title}
          head={['time', 'stream', 'steps', 'found by', 'event']}
          rows={events.map((event, i) => [formatTime(times[i] ?? Number.NaN, timeZone), shown(event.stream), String(event.depth), event.via === null ? '' : shown(`${event.via.column} = ${event.via.id}`), text(event)])}
        />
      ) : (
        <figure class="chart">
          <figcaption>
            {title} <span class="dim">times in {zoneName(known.length === 0 ? Date.now() : last, timeZone)}</span>
          </figcaption>
          <div
            class="timeline"
            role="group"
            tabIndex={0}
            aria-label={`Chart: ${title}. Arrow keys move the cursor. Enter opens the event.`}
            aria-description={summary}
            onKeyDown={(event) => moved(event, cursor, events.length, describe, setAt, open)}
          >
            {streams.slice(0, LANES_MAX).map((stream) => (
              <div key={stream} class="lane">
                <span class="lane-name">{shown(stream, 40)}</span>
                <span class="lane-line" onPointerMove={(event) => setAt(pick(event, stream))} onClick={(event) => open(pick(event, stream))}>
                  {events.map((event, i) =>
                    event.stream === stream ? <span key={i} class={i === cursor ? 'lane-mark marked' : 'lane-mark'} style={{ left: `${place(i)}%` }} /> : null,
                  )}
                </span>
              </div>
            ))}
          </div>
          <p class="axis dim">
            <span>{known.length === 0 ? '' : formatClock(first, timeZone, true)}</span>
            <span>{known.length === 0 ? '' : formatClock(last, timeZone, true)}</span>
          </p>
          <p class="marked-event">{cursor === null ? '\u00a0' : describe(cursor)}</p>
          {streams.length > LANES_MAX && <p class="note">{formatNumber(streams.length - LANES_MAX)} more streams are in the list only.</p>}
          <p class="unseen">{summary}</p>
        </figure>
      )}
      <button type="button" class="quiet as-table" aria-pressed={asTable} aria-label={`As table: ${title}`} onClick={() => setAsTable(!asTable)}>
        As table
      </button>
    </div>
  );
}
