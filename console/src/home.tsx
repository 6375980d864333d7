/** The first page: streams with their curves, the newest events, example questions, recent questions, and what needs attention. */
import { signal } from '@preact/signals';
import type { JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Spark } from './chart.tsx';
import { connection, documentBase, getText, serverNow, streams, post } from './client.ts';
import { lastDashboards, readLastDashboards } from './dashboard_list.ts';
import { type Example, exampleQuestions, readPaths } from './examples.ts';
import { shellWord } from './export.ts';
import { formatBytes, formatClock, formatDuration, formatNumber, formatShort, formatTime, zoneName } from './format.ts';
import { type Json, formatJson, parseJson } from './json.ts';
import { isOffered } from './page_table.ts';
import { isObject } from './protocol.ts';
import { addressOf, go } from './route.ts';
import { SavedRecent } from './saved_controls.tsx';
import { isDark, zone } from './settings.ts';
import { Rates, SECONDS } from './streams_history.ts';
import { history, openTab, run } from './tabs.ts';
import { cut, visible, visibleLines } from './text.ts';
import { thinIndexes } from './thinning.ts';
import { Icon, copyText, useElement, useInSight } from './ui.tsx';
import type { StreamFacts } from './wire.ts';

const RECENT_MS = 1000;
const PATHS_MS = 30_000;
const EVENTS_SHOWN = 12;
const LAG_MS_MAX = 1000;
const STORED_LAG_MS_MAX = 60_000;
const CLOCK_MS_MAX = 1000;

const rates = new Rates();
/** Rises with each change of `rates`. */
const ratesVersion = signal(0);
/** Whether the first events are on screen: what comes by further requests waits for them. */
const begun = signal(false);
let historyAsked = false;
/** The stream whose events and examples are shown; null: the busiest. */
const chosen = signal<string | null>(null);
/** Stays the busiest until it is silent, so that the page does not jump between two equal streams. */
let busiest: string | null = null;
/** The examples that were made last, for the palette. */
export const examples = signal<Example[]>([]);

export function ask(example: { text: string }): void {
  const tab = openTab(example.text);
  go('ask');
  run(tab);
}

export function Home(): JSX.Element {
  const list = streams.value?.streams ?? null;
  useEffect(() => {
    post({ do: 'streams', on: true });
    const visibility = () => post({ do: 'streams', on: !document.hidden });
    document.addEventListener('visibilitychange', visibility);
    return () => {
      document.removeEventListener('visibilitychange', visibility);
      post({ do: 'streams', on: false });
    };
  }, []);
  useEffect(() => {
    if (!begun.value || historyAsked) return;
    historyAsked = true;
    getText('v1/metrics/history')
      .then((text) => {
        rates.begin(parseJson(text));
        ratesVersion.value += 1;
      })
      .catch(() => {
        // A server without history: the curves begin now.
      });
  }, [begun.value]);
  useEffect(() => {
    const now = streams.value;
    if (now === null) return;
    rates.add(now.at, now.streams);
    ratesVersion.value += 1;
  }, [streams.value]);

  const shown = useMemo(() => (list === null ? null : [...list].sort((a, b) => b.events - a.events || (a.name < b.name ? -1 : 1))), [list]);
  const current = list === null ? null : pick(list);
  return (
    <main id="main" class="page home">
      <h1 class="unseen">Home</h1>
      {shown === null && <Waiting />}
      {shown !== null && shown.length === 0 && <FirstEvent />}
      {shown !== null && shown.length > 0 && (
        <>
          <Attention streams={shown} />
          <div class="columns">
            <div class="column">
              <StreamList streams={shown} current={current} />
              {current !== null && <Newest stream={current} key={current} />}
            </div>
            <div class="column">
              {current !== null && <Examples stream={current} key={current} />}
              <DashboardList />
              <Recent />
              <SavedRecent ready={begun.value} />
              <details class="panel send">
                <summary>Send events</summary>
                <SendExamples stream={current ?? 'clicks'} />
              </details>
            </div>
          </div>
        </>
      )}
    </main>
  );
}

const DASHBOARDS_SHOWN = 5;

/** The dashboards that were changed last. */
function DashboardList(): JSX.Element | null {
  const offered = isOffered('dashboards') === true;
  useEffect(() => {
    if (offered && begun.value) void readLastDashboards();
  }, [offered, begun.value]);
  const list = (lastDashboards.value ?? []).slice(0, DASHBOARDS_SHOWN);
  if (!offered || list.length === 0) return null;
  return (
    <section class="panel" aria-label="Dashboards">
      <header>
        <h2>Dashboards</h2>
        <span class="dim">changed last</span>
      </header>
      <ul>
        {list.map(({ name, title }) => (
          <li key={name} class="bar">
            <a class="object" href={addressOf('dashboards', name)} onClick={(event) => (event.preventDefault(), go('dashboards', name))}>
              {visible(cut(title === '' ? name : title, 80))}
            </a>
            <span class="dim">{visible(cut(name, 60))}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function pick(list: StreamFacts[]): string | null {
  const named = (name: string | null) => list.find((stream) => stream.name === name);
  if (named(chosen.value) !== undefined) return chosen.value;
  if ((named(busiest)?.eventsPerSecond ?? 0) === 0) {
    busiest = list.reduce<StreamFacts | null>((a, b) => (a === null || b.eventsPerSecond > a.eventsPerSecond ? b : a), null)?.name ?? null;
  }
  return busiest;
}

function Waiting(): JSX.Element {
  const away = connection.value?.phase === 'reconnecting';
  return <p class="panel waiting">{away ? 'The server does not answer.' : 'Waiting for the server…'}</p>;
}

/** What is near a limit or failing, as far as the status of streams shows it. */
function Attention({ streams: list }: { streams: StreamFacts[] }): JSX.Element | null {
  const lines: string[] = [];
  const skew = connection.value?.clockAheadMs ?? 0;
  if (Math.abs(skew) > CLOCK_MS_MAX) {
    lines.push(`The server's clock is ${formatDuration(Math.abs(skew))} ${skew > 0 ? 'ahead of' : 'behind'} this machine's. Ages are by the server's clock.`);
  }
  for (const stream of list) {
    const name = visible(cut(stream.name, 60));
    if (stream.rejected > 0) lines.push(`${name}: ${formatNumber(stream.rejected)} events were rejected.`);
    if (stream.lagMs > LAG_MS_MAX) lines.push(`${name}: queries are ${formatDuration(stream.lagMs)} behind, ${formatBytes(stream.pendingBytes)} wait.`);
    if (stream.stored && stream.storedLagMs > STORED_LAG_MS_MAX) lines.push(`${name}: its table is ${formatDuration(stream.storedLagMs)} behind.`);
    if (stream.sample !== null && stream.sample < 1) lines.push(`${name}: only ${formatNumber(stream.sample * 100)} % of the events are taken.`);
  }
  if (lines.length === 0) return null;
  return (
    <section class="panel attention" aria-label="Needs attention">
      <h2>Needs attention</h2>
      <ul>
        {lines.slice(0, 6).map((line) => (
          <li key={line.split(':')[0] ?? line}>
            <Icon name="warn" />
            {line}
          </li>
        ))}
      </ul>
      {lines.length > 6 && <p class="dim">{lines.length - 6} more.</p>}
    </section>
  );
}

function StreamList({ streams: list, current }: { streams: StreamFacts[]; current: string | null }): JSX.Element {
  const [all, setAll] = useState(false);
  const shown = all ? list : list.slice(0, 12);
  return (
    <section class="panel" aria-labelledby="streams">
      <header>
        <h2 id="streams">Streams</h2>
        <span class="dim">events a second, last 15 minutes</span>
      </header>
      <table class="streams">
        <thead class="unseen">
          <tr>
            <th scope="col">Stream</th>
            <th scope="col">Last 15 minutes</th>
            <th scope="col">Events a second</th>
            <th scope="col">Events</th>
          </tr>
        </thead>
        <tbody>
          {shown.map((stream) => (
            <StreamRow key={stream.name} stream={stream} current={stream.name === current} />
          ))}
        </tbody>
      </table>
      {list.length > 12 && (
        <button type="button" class="quiet" onClick={() => setAll(!all)}>
          {all ? 'Show fewer' : `Show all ${list.length}`}
        </button>
      )}
    </section>
  );
}

function StreamRow({ stream, current }: { stream: StreamFacts; current: boolean }): JSX.Element {
  const [row, setRow] = useElement<HTMLTableRowElement>();
  const seen = useInSight(row);
  const version = ratesVersion.value;
  const last = useRef<Array<number | null>>([]);
  last.current = useMemo(() => {
    if (!seen || document.hidden) return last.current;
    // Always 15 minutes wide: what is not known yet is empty.
    const known = rates.of(stream.name);
    const curve = [...new Array<null>(Math.max(0, SECONDS - known.length)).fill(null), ...known];
    const x = curve.map((_, i) => i);
    return thinIndexes(x, [curve], 160).map((i) => curve[i] ?? null);
  }, [version, seen]);
  return (
    <tr ref={setRow} class={current ? 'current' : ''}>
      <th scope="row">
        <button type="button" class="link" aria-pressed={current} title="Show its events and questions" onClick={() => (chosen.value = stream.name)}>
          {visible(cut(stream.name, 60))}
        </button>
        <span class="dim sub">
          {stream.stored ? 'stored' : 'live only'}
          {stream.queries > 0 && ` · ${formatNumber(stream.queries)} ${stream.queries === 1 ? 'query' : 'queries'}`}
          {' · '}
          <a
            class="details"
            href={addressOf('streams', stream.name)}
            aria-label={`Details of ${visible(cut(stream.name, 60))}`}
            onClick={(event) => {
              if (event.ctrlKey || event.metaKey || event.shiftKey) return;
              event.preventDefault();
              go('streams', stream.name);
            }}
          >
            Details
          </a>
        </span>
      </th>
      <td class="curve">
        <Spark values={last.current} dark={isDark()} height={32} />
      </td>
      <td class="rate">
        <b>{formatShort(stream.eventsPerSecond)}</b>
        <span class="dim">/s</span>
        <span class="dim sub">{formatBytes(stream.bytesPerSecond)}/s</span>
      </td>
      <td class="total dim">{formatShort(stream.events)}</td>
    </tr>
  );
}

interface RecentEvent {
  at: number;
  text: string;
}

export function Newest({ stream }: { stream: string }): JSX.Element {
  const [events, setEvents] = useState<RecentEvent[] | null>(null);
  const [paused, setPaused] = useState(false);
  const [box, setBox] = useElement<HTMLElement>();
  const seen = useInSight(box);
  useEffect(() => {
    if (!seen || paused) return;
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const read = async () => {
      if (!document.hidden) {
        try {
          const text = await getText(`v1/streams/${encodeURIComponent(stream)}/recent`, abort.signal);
          setEvents(readRecent(parseJson(text)));
        } catch {
          if (!abort.signal.aborted) setEvents((before) => before ?? []);
        }
        begun.value = true;
      }
      if (!abort.signal.aborted) timer = setTimeout(read, RECENT_MS);
    };
    void read();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [stream, seen, paused]);
  const timeZone = zone();
  return (
    <section ref={setBox} class="panel" aria-labelledby="newest">
      <header>
        <h2 id="newest">Newest events of {visible(cut(stream, 60))}</h2>
        <span class="dim">{zoneName(serverNow(), timeZone)}</span>
        <span class="spring" />
        <button type="button" class="quiet" aria-pressed={paused} onClick={() => setPaused(!paused)}>
          <Icon name={paused ? 'run' : 'pause'} />
          {paused ? 'Resume' : 'Pause'}
        </button>
      </header>
      {events !== null && events.length === 0 && <p class="dim">No recent events are in memory.</p>}
      <ol class="events" tabIndex={0} aria-label="Newest events">
        {(events ?? []).map((event, i) => (
          <li key={i}>
            <time>{formatClock(event.at, timeZone, true)}</time>
            <code>{event.text}</code>
          </li>
        ))}
      </ol>
    </section>
  );
}

function readRecent(data: Json): RecentEvent[] {
  if (!isObject(data) || !Array.isArray(data.events)) return [];
  const events: RecentEvent[] = [];
  for (const item of data.events) {
    if (!isObject(item) || typeof item.at !== 'string' || item.event === undefined) continue;
    events.push({ at: Date.parse(item.at), text: visible(cut(formatJson(item.event), 400)) });
  }
  return events.sort((a, b) => b.at - a.at).slice(0, EVENTS_SHOWN);
}

function Examples({ stream }: { stream: string }): JSX.Element {
  const [made, setMade] = useState<Example[] | null>(null);
  useEffect(() => {
    if (!begun.value) return;
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const read = async () => {
      let found: Example[];
      let known = true;
      try {
        const paths = readPaths(parseJson(await getText(`v1/streams/${encodeURIComponent(stream)}/paths`, abort.signal)));
        known = paths.length > 0;
        found = exampleQuestions(stream, paths);
      } catch {
        if (abort.signal.aborted) return;
        found = exampleQuestions(stream, []);
      }
      setMade(found);
      examples.value = found;
      // Paths of a stream that has just begun may change; then the questions stay, or the reader would miss them.
      if (!known) timer = setTimeout(read, PATHS_MS);
    };
    void read();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [stream, begun.value]);
  return (
    <section class="panel" aria-labelledby="examples">
      <header>
        <h2 id="examples">Ask {visible(cut(stream, 40))}</h2>
        <span class="dim">one click runs it</span>
      </header>
      <ul class="examples">
        {(made ?? []).map((example) => (
          <li key={example.text}>
            <button type="button" onClick={() => ask(example)}>
              <Icon name="run" />
              <span>
                <b>{visible(cut(example.title, 120))}</b>
                <code>{visible(cut(example.text.replace(/\s+/g, ' '), 240))}</code>
              </span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Recent(): JSX.Element | null {
  if (history.value.length === 0) return null;
  return (
    <section class="panel" aria-labelledby="recent">
      <header>
        <h2 id="recent">Recent questions</h2>
      </header>
      <ul class="history">
        {history.value.slice(0, 6).map((past) => (
          <li key={past.text}>
            <button
              type="button"
              onClick={() => {
                openTab(past.text, past.dialect, past.parameters);
                go('ask');
              }}
            >
              <code>{visible(cut(past.text.replace(/\s+/g, ' '), 160))}</code>
              <span class="dim">{formatTime(past.at, zone(), false)}</span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

function FirstEvent(): JSX.Element {
  return (
    <section class="panel first" aria-labelledby="first">
      <h2 id="first">No stream has received an event yet</h2>
      <p>A stream exists with its first event. Send one, and it appears here at once.</p>
      <SendExamples stream="clicks" />
    </section>
  );
}

export function SendExamples({ stream }: { stream: string }): JSX.Element {
  const server = documentBase.replace(/\/$/, '');
  const address = `${server}/v1/streams/${encodeURIComponent(stream)}/events`;
  const ways: Array<[string, string]> = [
    ['curl', `curl -fsS ${shellWord(address)} --data-binary '{"page": "/cart", "ms": 812}'`],
    [
      'Python',
      `import json, urllib.request\n\nevent = {"page": "/cart", "ms": 812}\nurllib.request.urlopen(${JSON.stringify(address)}, json.dumps(event).encode())`,
    ],
    ['swiftwater ingest', `echo '{"page": "/cart", "ms": 812}' | swiftwater ingest --server ${shellWord(server)} ${shellWord(stream)} -`],
  ];
  return (
    <>
      {ways.map(([name, text]) => (
        <div class="snippet" key={name}>
          <div class="bar">
            <h3>{name}</h3>
            <span class="spring" />
            <button type="button" class="quiet" aria-label={`Copy for ${name}`} onClick={() => void copyText(text, name)}>
              Copy
            </button>
          </div>
          <pre tabIndex={0} role="region" aria-label={`Example for ${name}`}>
            {visibleLines(text)}
          </pre>
        </div>
      ))}
    </>
  );
}
