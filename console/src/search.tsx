/** Text search over stored streams, hits as they come, and the events that share an id. */
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { formatDuration, formatNumber, formatTime, parseTime } from './format.ts';
import { type Json, formatJson } from './json.ts';
import { JsonTree } from './json_tree.tsx';
import { Failure, getJson, problemOfError, useWatch } from './objects.ts';
import { endOfToken, offsetAfter } from './places.ts';
import { type Problem, isObject } from './protocol.ts';
import { object } from './route.ts';
import { HitsOverTime, Timeline } from './search_charts.tsx';
import { FOLLOWED_MAX, useFollow, whenVisible } from './search_follow.ts';
import {
  type ActivityEvent,
  type Answer,
  type Facet,
  type Hit,
  RANGES,
  type SearchState,
  activityCall,
  asksSomething,
  facetColumns,
  facetsCall,
  faultsOf,
  fieldsCall,
  hitsCall,
  readAnswer,
  readEvent,
  readFacets,
  readSearch,
  writeSearch,
} from './search_state.ts';
import { Condition, Panel, ProblemBox, shown } from './parts.tsx';
import { zone } from './settings.ts';
import { copyLink } from './short_links.tsx';
import { isDots, visible } from './text.ts';
import { Dialog, Icon, announce, copyText } from './ui.tsx';

const STREAMS_MS = 10_000;
const FACETS_MAX = 6;
const FACET_STREAMS_MAX = 8;
const STREAMS_SHOWN = 200;

/** A mark in the browser's history: the reader made this search in this window. */
const OWN = { search: true };
const isOwn = (): boolean => typeof window.history.state === 'object' && window.history.state !== null && (window.history.state as { search?: unknown }).search === true;
/** A search that a page of another site opened waits for a click. */
const isTrusted = (): boolean => document.documentElement.dataset.from !== 'cross-site' || isOwn();

/** The search of the address. `#/search/NAME` chooses a stream. */
function fromAddress(): SearchState {
  const state = readSearch(location.hash);
  return object.value !== null && state.streams.length === 0 && state.activity === null ? { ...state, streams: [object.value] } : state;
}

export function Search(): JSX.Element {
  const [state, setState] = useState(fromAddress);
  /** The search that runs, an object of its own for each click; null: none does. */
  const [asked, setAsked] = useState<SearchState | null>(() => (isTrusted() && asksSomething(state) ? { ...state } : null));
  const [following, setFollowing] = useState(false);
  const [stopped, setStopped] = useState(false);
  const [opened, setOpened] = useState<Hit | null>(null);
  useEffect(() => {
    const read = () => {
      const next = fromAddress();
      setFollowing(false);
      setState(next);
      setAsked(isTrusted() && asksSomething(next) ? { ...next } : null);
    };
    window.addEventListener('popstate', read);
    return () => window.removeEventListener('popstate', read);
  }, []);
  const run = (next: SearchState, follow = false) => {
    const fragment = writeSearch(next);
    if (location.hash === fragment) window.history.replaceState(OWN, '', fragment);
    else window.history.pushState(OWN, '', fragment);
    setState(next);
    setFollowing(follow);
    setStopped(false);
    setAsked({ ...next });
  };
  const isActivity = state.activity !== null;
  return (
    <main id="main" class="page search-page">
      <div class="bar">
        <h1>Search</h1>
        <div class="forms" role="group" aria-label="What is searched for">
          <button type="button" aria-pressed={!isActivity} onClick={() => (setAsked(null), setFollowing(false), setState({ ...state, activity: null }))}>
            Words
          </button>
          <button type="button" aria-pressed={isActivity} onClick={() => (setAsked(null), setFollowing(false), setState({ ...state, activity: state.activity ?? '' }))}>
            Activity of an id
          </button>
        </div>
      </div>
      {asked === null && asksSomething(state) && !isTrusted() && (
        <p class="notice">This search came with a link from another site. Nothing has run: read it, then choose {isActivity ? 'Show activity' : 'Search'}.</p>
      )}
      {isActivity ? (
        <ActivityPart state={state} asked={asked} run={run} change={setState} open={setOpened} />
      ) : (
        <WordsPart
          state={state}
          asked={asked}
          following={following}
          run={run}
          change={setState}
          stopped={stopped}
          stop={() => (following ? setStopped(true) : setAsked(null))}
          open={setOpened}
        />
      )}
      {opened !== null && <EventDialog hit={opened} onClose={() => setOpened(null)} />}
    </main>
  );
}

interface Running<T> {
  data: T | null;
  problem: Problem | null;
  busy: boolean;
}

/** Reads once for each `asked`, when the page is visible. The data of the last read stay until the next has come. */
function useOnce<T>(asked: unknown, read: (signal: AbortSignal) => Promise<T>): Running<T> {
  const [state, setState] = useState<Running<T>>({ data: null, problem: null, busy: false });
  useEffect(() => {
    if (asked === null) {
      setState({ data: null, problem: null, busy: false });
      return;
    }
    const abort = new AbortController();
    setState((before) => ({ ...before, busy: true }));
    whenVisible(abort.signal)
      .then(() => read(abort.signal))
      .then(
        (data) => setState({ data, problem: null, busy: false }),
        (error: unknown) => {
          if (!abort.signal.aborted) setState({ data: null, problem: problemOfError(error), busy: false });
        },
      );
    return () => abort.abort();
  }, [asked]);
  return state;
}

/** The cursors of the pages up to the one that is shown; null is the first page. Each search begins with its first page. */
function usePages(asked: SearchState | null): [Array<string | null>, (pages: Array<string | null>) => void] {
  const [state, setState] = useState<{ asked: SearchState | null; pages: Array<string | null> }>({ asked: null, pages: [null] });
  return [state.asked === asked ? state.pages : [null], (pages) => setState({ asked, pages })];
}

interface PartProps {
  state: SearchState;
  asked: SearchState | null;
  run(next: SearchState, follow?: boolean): void;
  change(next: SearchState): void;
  open(hit: Hit): void;
}

function WordsPart(props: PartProps & { following: boolean; stopped: boolean; stop(): void }): JSX.Element {
  const { state, asked, following, stopped, run, change, open } = props;
  const [pages, setPages] = usePages(asked);
  const [facets, setFacets] = useState<Facet[]>([]);
  const cursor = pages[pages.length - 1] ?? null;
  const page = useMemo(() => (asked === null || following ? null : { asked, cursor }), [asked, cursor, following]);
  const found = useOnce(page, async (signal) => readAnswer(await getJson(hitsCall(asked ?? state, cursor), signal)));
  const followed = useFollow(following ? asked : null, stopped);
  /** The total and the counts over time are those of the first page. */
  const [first, setFirst] = useState<Answer | null>(null);
  useEffect(() => {
    if (found.data !== null && cursor === null) setFirst(found.data);
    if (found.data !== null) announce(found.data.total === null ? `${found.data.hits.length} hits` : `${formatNumber(found.data.total)} hits`);
  }, [found.data]);
  useEffect(() => {
    if (asked === null) {
      setFirst(null);
      setFacets([]);
    }
  }, [asked]);
  const counted = useOnce(first !== null && (first.total ?? 0) > 0 ? first : null, async (signal) => {
    const of = asked ?? state;
    const fields = await Promise.all(of.streams.slice(0, FACET_STREAMS_MAX).map((stream) => getJson(fieldsCall(of, stream), signal)));
    const columns = of.streams.length > FACET_STREAMS_MAX ? [] : facetColumns(fields, FACETS_MAX);
    return columns.length === 0 ? [] : readFacets(await getJson(facetsCall(of, columns), signal));
  });
  useEffect(() => {
    if (counted.data !== null) setFacets(counted.data);
  }, [counted.data]);
  const problem = following ? followed.problem : found.problem;
  const drill = (value: string) => {
    const drills = state.drills.includes(value) ? state.drills.filter((one) => one !== value) : [...state.drills, value];
    run({ ...state, drills }, following);
  };
  return (
    <>
      <WordsForm state={state} problem={problem} following={following && !stopped} busy={found.busy} run={run} change={change} stop={props.stop} />
      {state.drills.length > 0 && (
        <ul class="bar drills" aria-label="Only events with">
          {state.drills.map((one) => (
            <li key={one}>
              <button type="button" aria-label={`Remove ${visible(one)}`} onClick={() => drill(one)}>
                {shown(one.replace(':', ' = '), 60)}
                <Icon name="close" />
              </button>
            </li>
          ))}
        </ul>
      )}
      {asked === null && <p class="panel waiting">Choose streams and search. Without words every event is found. Words side by side must all be found; OR, NOT, "phrases", column:word and word* work, too.</p>}
      {following && (
        <Panel title={stopped ? 'Hits that came' : 'Hits as they come'} note={`${formatNumber(followed.came)} came${followed.came > FOLLOWED_MAX ? `, the newest ${FOLLOWED_MAX} are shown` : ''}${followed.lost > 0 ? `, ${formatNumber(followed.lost)} were deleted before they were searched` : ''}`}>
          {!stopped && followed.problem !== null && !isWordsProblem(followed.problem) && (
            <ProblemBox problem={{ ...followed.problem, detail: `Stale since ${formatTime(followed.staleSince ?? Date.now(), zone(), false)}: ${followed.problem.detail ?? followed.problem.title}` }} />
          )}
          {followed.hits.length === 0 && <p class="dim">{stopped ? 'No event matched.' : 'No event matches yet. The page waits for the next one.'}</p>}
          <Hits hits={followed.hits} open={open} label="Hits as they come" />
        </Panel>
      )}
      {!following && asked !== null && (
        <div class="search-columns">
          <div class="column">
            {first !== null && first.histogram.length > 0 && (
              <Panel title="Time">
                <HitsOverTime intervals={first.histogram} onChoose={(from, to) => run({ ...state, from: new Date(from).toISOString(), to: new Date(to).toISOString() })} />
              </Panel>
            )}
            <Panel
              title="Hits"
              note={found.busy ? 'Searching…' : found.data === null ? '' : noteOf(found.data, first)}
              actions={
                <div class="bar">
                  <button type="button" disabled={pages.length < 2 || found.busy} onClick={() => setPages(pages.slice(0, -1))}>
                    <Icon name="back" /> Newer
                  </button>
                  <span class="dim">page {formatNumber(pages.length)}</span>
                  <button type="button" disabled={(found.data?.cursor ?? null) === null || found.busy} onClick={() => setPages([...pages, found.data?.cursor ?? null])}>
                    Older <Icon name="forward" />
                  </button>
                </div>
              }
            >
              {found.problem !== null && found.data === null && !isWordsProblem(found.problem) && <ProblemBox problem={found.problem} again={() => run(state)} />}
              {found.data?.warnings.map((warning) => (
                <p key={warning} class="notice">
                  {shown(warning, 300)}
                </p>
              ))}
              {found.data !== null && !found.data.complete && <p class="notice">The search took too long: these are the hits of the newest events only. Choose a shorter time.</p>}
              {found.data !== null && found.data.hits.length === 0 && <p class="dim">No event matches. A longer time, fewer words or OR between them finds more.</p>}
              {counted.problem !== null && <p class="dim">The values could not be counted: {shown(counted.problem.detail ?? counted.problem.title, 200)}</p>}
              <Hits hits={found.data?.hits ?? []} open={open} label="Hits" />
            </Panel>
          </div>
          {facets.length > 0 && <Facets facets={facets} drills={state.drills} drill={drill} />}
        </div>
      )}
    </>
  );
}

function noteOf(answer: Answer, first: Answer | null): string {
  const total = answer.total ?? first?.total ?? null;
  return `${total === null ? '' : `${formatNumber(total)} ${total === 1 ? 'hit' : 'hits'}, `}newest first${answer.tookMs === null ? '' : `, ${formatDuration(answer.tookMs)}`}`;
}

/** Whether a problem has its place in the words. */
const isWordsProblem = (problem: Problem): boolean => faultsOf(problem).some(({ character }) => character !== null);

function WordsForm(props: { state: SearchState; problem: Problem | null; following: boolean; busy: boolean; run(next: SearchState, follow?: boolean): void; change(next: SearchState): void; stop(): void }): JSX.Element {
  const { state, change, run } = props;
  const streams = useWatch('v1/streams?limit=1000', STREAMS_MS);
  const names = useMemo(() => storedStreams(streams.data), [streams.data]);
  const input = useRef<HTMLInputElement>(null);
  const faults = props.problem !== null && isWordsProblem(props.problem) ? faultsOf(props.problem) : [];
  // The only stored stream needs no choice.
  useEffect(() => {
    if (names?.length === 1 && state.streams.length === 0) change({ ...state, streams: [names[0] as string] });
  }, [names]);
  const goTo = (character: number) => {
    const at = offsetAfter(state.words, character - 1);
    input.current?.focus();
    input.current?.setSelectionRange(at, endOfToken(state.words, at));
  };
  return (
    <form
      class="panel search-form"
      onSubmit={(event) => {
        event.preventDefault();
        if (state.streams.length > 0) run(state);
      }}
    >
      <StreamChoice names={names} chosen={state.streams} change={(chosen) => change({ ...state, streams: chosen })} />
      <Condition of={names === null ? { ...streams, data: null } : streams} />
      {names !== null && names.length === 0 && <NoStreams />}
      <div class="bar search-line">
        <label class="words">
          <span class="unseen">Words</span>
          <input
            ref={input}
            type="search"
            value={state.words}
            placeholder={'timeout level:error "connection refused"'}
            autocomplete="off"
            spellcheck={false}
            aria-invalid={faults.length > 0}
            aria-describedby={faults.length > 0 ? 'search-faults' : undefined}
            onInput={(event) => change({ ...state, words: event.currentTarget.value })}
          />
        </label>
        <RangeChoice state={state} change={change} />
        <button type="submit" class="primary" disabled={state.streams.length === 0}>
          <Icon name="search" /> Search
        </button>
        {props.following || props.busy ? (
          <button type="button" onClick={props.stop}>
            <Icon name="stop" /> {props.following ? 'Stop following' : 'Stop searching'}
          </button>
        ) : (
          <button type="button" disabled={state.streams.length === 0} onClick={() => run(state, true)}>
            <Icon name="run" /> Follow
          </button>
        )}
        <button type="button" onClick={() => void copyLink(writeSearch(state))}>
          Copy link
        </button>
      </div>
      {faults.length > 0 && (
        <div id="search-faults" class="search-faults" role="alert">
          <Marked words={state.words} places={faults.flatMap(({ character }) => character ?? [])} />
          {faults.map((fault, i) => (
            <p key={i}>
              {fault.character !== null && (
                <button type="button" class="link" onClick={() => goTo(fault.character ?? 1)}>
                  Character {formatNumber(fault.character)}
                </button>
              )}{' '}
              {shown(fault.message, 400)}
            </p>
          ))}
          {props.problem?.hint !== undefined && <p class="dim">{shown(props.problem.hint, 400)}</p>}
        </div>
      )}
    </form>
  );
}

/** The words with the characters of their faults underlined. */
function Marked({ words, places }: { words: string; places: readonly number[] }): JSX.Element {
  const characters = [...words];
  const parts: ComponentChildren[] = [];
  let from = 0;
  for (const place of [...new Set(places)].sort((a, b) => a - b)) {
    const at = Math.min(place - 1, characters.length);
    if (at < from) continue;
    parts.push(visible(characters.slice(from, at).join('')), <u key={place}>{visible(characters[at] ?? ' ')}</u>);
    from = at + 1;
  }
  parts.push(visible(characters.slice(from).join('')));
  return <pre aria-hidden="true">{parts}</pre>;
}

function storedStreams(data: Json): string[] | null {
  if (!isObject(data) || !Array.isArray(data.streams)) return null;
  return data.streams.flatMap((stream) => (isObject(stream) && stream.stored === true && typeof stream.name === 'string' ? [stream.name] : [])).sort();
}

function NoStreams(): JSX.Element {
  return (
    <>
      <p class="dim">No stream is stored, so there is nothing to search. This statement stores a stream:</p>
      <pre class="value-text" tabIndex={0} role="region" aria-label="Example">
        CREATE STREAM logs WITH (store = true)
      </pre>
    </>
  );
}

function StreamChoice({ names, chosen, change }: { names: string[] | null; chosen: string[]; change(chosen: string[]): void }): JSX.Element {
  const [find, setFind] = useState('');
  // A stream of the link that the server does not have stays visible.
  const all = [...new Set([...chosen, ...(names ?? [])])];
  const found = all.filter((name) => name.toLowerCase().includes(find.toLowerCase()));
  return (
    <fieldset class="stream-choice">
      <legend>Streams</legend>
      {all.length > 12 && (
        <label class="find">
          <Icon name="search" />
          <span class="unseen">Find a stream</span>
          <input type="search" placeholder="Find a stream" value={find} onInput={(event) => setFind(event.currentTarget.value)} />
        </label>
      )}
      <div class="stream-names">
        {found.slice(0, STREAMS_SHOWN).map((name) => (
          <label key={name} class="check">
            <input type="checkbox" checked={chosen.includes(name)} onChange={(event) => change(event.currentTarget.checked ? [...chosen, name] : chosen.filter((one) => one !== name))} />
            <span>{shown(name, 60)}</span>
          </label>
        ))}
        {found.length > STREAMS_SHOWN && <span class="dim">{formatNumber(found.length - STREAMS_SHOWN)} more: type a part of the name.</span>}
      </div>
    </fieldset>
  );
}

function RangeChoice({ state, change }: { state: SearchState; change(next: SearchState): void }): JSX.Element {
  const known = state.to === '' && RANGES.some(([from]) => from === state.from);
  const [own, setOwn] = useState(false);
  const custom = own || !known;
  return (
    <>
      <label class="select">
        <span class="unseen">Time</span>
        <select
          value={custom ? 'own' : state.from}
          onChange={(event) => {
            const value = event.currentTarget.value;
            setOwn(value === 'own');
            if (value !== 'own') change({ ...state, from: value, to: '' });
          }}
        >
          {RANGES.map(([from, name]) => (
            <option key={from} value={from}>
              {name}
            </option>
          ))}
          <option value="own">From and to…</option>
        </select>
      </label>
      {custom && (
        <>
          <label class="select">
            From
            <input type="text" class="time" value={state.from} placeholder="now-2h, 2026-11-30" onInput={(event) => change({ ...state, from: event.currentTarget.value })} />
          </label>
          <label class="select">
            to
            <input type="text" class="time" value={state.to} placeholder="now" onInput={(event) => change({ ...state, to: event.currentTarget.value })} />
          </label>
        </>
      )}
    </>
  );
}

function Facets({ facets, drills, drill }: { facets: readonly Facet[]; drills: readonly string[]; drill(value: string): void }): JSX.Element {
  return (
    <Panel title="Values" note="a click keeps only events with the value">
      {facets.map((facet) => {
        const most = facet.values.reduce((a, { count }) => Math.max(a, count), 1);
        return (
          <div key={facet.column} class="facet" role="group" aria-label={visible(facet.column)}>
            <h3>
              {shown(facet.column, 60)} <span class="dim">
                {formatNumber(facet.distinct)} {facet.distinct === 1 ? 'value' : 'values'}
              </span>
            </h3>
            {facet.values.map(({ value, count }) => (
              <button key={value} type="button" class="facet-value" aria-pressed={drills.includes(`${facet.column}:${value}`)} onClick={() => drill(`${facet.column}:${value}`)}>
                <span class="facet-name">{value === '' ? <span class="dim">empty</span> : shown(value, 60)}</span>
                <span class="shares" aria-hidden="true">
                  <span class="share share-0" style={{ left: '0', width: `${(count / most) * 100}%` }} />
                </span>
                <span class="dim">{formatNumber(count)}</span>
              </button>
            ))}
            {facet.missing > 0 && <p class="dim">{formatNumber(facet.missing)} without a value</p>}
          </div>
        );
      })}
    </Panel>
  );
}

const lines = new WeakMap<object, string>();

/** An event as one line of text, made once. */
function lineOf(event: Json): string {
  if (typeof event !== 'object' || event === null) return shown(formatJson(event), 300);
  const known = lines.get(event);
  if (known !== undefined) return known;
  const line = shown(formatJson(event), 300);
  lines.set(event, line);
  return line;
}

function Hits({ hits, open, label }: { hits: readonly Hit[]; open(hit: Hit): void; label: string }): JSX.Element | null {
  const timeZone = zone();
  if (hits.length === 0) return null;
  return (
    <ol class="hits" aria-label={label}>
      {hits.map((hit) => (
        <li key={`${hit.stream} ${hit.offset}`}>
          <button type="button" class="hit" onClick={() => open(hit)}>
            <span class="hit-head dim">
              <time>{timeOf(hit, timeZone)}</time> {shown(hit.stream, 60)}
            </span>
            {hit.highlight.map(({ column, pieces }) => (
              <span key={column} class="hit-text">
                <span class="dim">{shown(column, 60)}: </span>
                {pieces.slice(0, 60).map((piece, i) => (piece.kind === 'match' ? <mark key={i}>{shown(piece.text, 300)}</mark> : <span key={i}>{shown(piece.text, 300)}</span>))}
              </span>
            ))}
            <code class="hit-event">{lineOf(hit.event)}</code>
          </button>
        </li>
      ))}
    </ol>
  );
}

function timeOf(hit: Hit, timeZone: string): string {
  const at = parseTime(hit.time);
  return at === null ? visible(hit.time) : formatTime(at, timeZone);
}

function EventDialog({ hit, onClose }: { hit: Hit; onClose(): void }): JSX.Element {
  return (
    <Dialog title={`Event ${hit.offset} of ${shown(hit.stream, 60)}`} wide onClose={onClose}>
      <p class="dim">{timeOf(hit, zone())}</p>
      <JsonTree value={hit.event} label="Event" />
      <div class="bar">
        <button type="button" onClick={() => void copyText(formatJson(hit.event, 2), 'Event')}>
          Copy as JSON
        </button>
      </div>
    </Dialog>
  );
}

function ActivityPart({ state, asked, run, change, open }: PartProps): JSX.Element {
  const [pages, setPages] = usePages(asked);
  const cursor = pages[pages.length - 1] ?? null;
  const page = useMemo(() => (asked === null || asked.activity === null ? null : { asked, cursor }), [asked, cursor]);
  const found = useOnce(page, async (signal) => {
    if (isDots(asked?.activity ?? '')) throw new Failure({ title: 'An id cannot be . or .. alone: a browser takes it out of the path.', status: 0 });
    const data = await getJson(activityCall(asked ?? state, cursor), signal);
    const events = isObject(data) && Array.isArray(data.events) ? data.events.flatMap((one) => readEvent(one) ?? []) : [];
    return { ...readAnswer(data), events };
  });
  useEffect(() => {
    if (found.data !== null) announce(`${formatNumber(found.data.total ?? found.data.events.length)} events`);
  }, [found.data]);
  const id = state.activity ?? '';
  return (
    <>
      <form
        class="panel search-form"
        onSubmit={(event) => {
          event.preventDefault();
          if (id !== '') run(state);
        }}
      >
        <div class="bar search-line">
          <label class="words">
            <span class="unseen">Id</span>
            <input type="search" value={id} placeholder="The id of a trace, an order, a session" autocomplete="off" spellcheck={false} onInput={(event) => change({ ...state, activity: event.currentTarget.value })} />
          </label>
          <RangeChoice state={state} change={change} />
          <label class="select">
            Steps to other ids
            <select value={String(state.depth)} onChange={(event) => change({ ...state, depth: Number(event.currentTarget.value) })}>
              {[0, 1, 2, 3, 4, 5].map((depth) => (
                <option key={depth} value={String(depth)}>
                  {depth}
                </option>
              ))}
            </select>
          </label>
          <button type="submit" class="primary" disabled={id === ''}>
            <Icon name="search" /> Show activity
          </button>
          <button type="button" disabled={id === ''} onClick={() => void copyLink(writeSearch(state))}>
            Copy link
          </button>
        </div>
      </form>
      {asked === null ? (
        <p class="panel waiting">An activity is all events of all streams that share an id, such as the calls and logs of a trace.</p>
      ) : (
        <Panel
          title="Events of the id"
          note={found.busy ? 'Reading…' : found.data === null ? '' : `${formatNumber(found.data.total ?? found.data.events.length)} events, oldest first`}
          actions={
            (pages.length > 1 || (found.data?.cursor ?? null) !== null) && (
              <div class="bar">
                <button type="button" disabled={pages.length < 2 || found.busy} onClick={() => setPages(pages.slice(0, -1))}>
                  <Icon name="back" /> Earlier
                </button>
                <span class="dim">page {formatNumber(pages.length)}</span>
                <button type="button" disabled={(found.data?.cursor ?? null) === null || found.busy} onClick={() => setPages([...pages, found.data?.cursor ?? null])}>
                  Later <Icon name="forward" />
                </button>
              </div>
            )
          }
        >
          {found.problem !== null && (
            <>
              <ProblemBox problem={found.problem} again={() => run(state)} />
              {found.problem.status === 404 && (
                <>
                  <p class="dim">A column with ids is declared by a search index:</p>
                  <pre class="value-text" tabIndex={0} role="region" aria-label="Example">
                    CREATE SEARCH INDEX ON calls (trace_id ID CORRELATION)
                  </pre>
                </>
              )}
            </>
          )}
          {found.data !== null && found.data.events.length === 0 && <p class="dim">No event has this id in this time.</p>}
          {found.data !== null && found.data.events.length > 0 && (
            <>
              <Timeline events={found.data.events} text={(event) => lineOf(event.event)} onOpen={open} />
              <Events events={found.data.events} open={open} follow={(other) => run({ ...state, activity: other })} own={asked.activity ?? ''} />
            </>
          )}
        </Panel>
      )}
    </>
  );
}

function Events({ events, open, follow, own }: { events: readonly ActivityEvent[]; open(hit: Hit): void; follow(id: string): void; own: string }): JSX.Element {
  const timeZone = zone();
  return (
    <ol class="hits" aria-label="Events of the id">
      {events.map((event) => (
        <li key={`${event.stream} ${event.offset}`} class="activity-event">
          <button type="button" class="hit" onClick={() => open(event)}>
            <span class="hit-head dim">
              <time>{timeOf(event, timeZone)}</time> {shown(event.stream, 60)}
              {event.depth > 0 && ` · ${formatNumber(event.depth)} ${event.depth === 1 ? 'step' : 'steps'} away`}
            </span>
            <code class="hit-event">{lineOf(event.event)}</code>
          </button>
          {event.via !== null && event.via.id !== own && (
            <button type="button" class="link" onClick={() => follow(event.via?.id ?? '')}>
              {shown(event.via.column, 40)} = {shown(event.via.id, 60)}
            </button>
          )}
        </li>
      ))}
    </ol>
  );
}
