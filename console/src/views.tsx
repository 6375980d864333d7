/** The views: their list, and of each its figures, rows by key, changes as they come, and statement. */
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ChangeFeed, type Change, columnsOf } from './changes.ts';
import { documentBase } from './client.ts';
import { createView, dropStatement, keySegments, queryOfView } from './ddl.ts';
import { quoteName } from './examples.ts';
import { formatBytes, formatClock, formatDuration, formatNumber, formatShort, zoneName } from './format.ts';
import { ask } from './home.tsx';
import type { Json } from './json.ts';
import { type Begin, LeftOut, takeBegin } from './keep_form.tsx';
import { problemOf, readLines } from './ndjson.ts';
import { Failure, type Row, problemOfError, readOnly, rowsOf, useWatch } from './objects.ts';
import { type Action, ActionDialog, Code, type Column, Condition, DependentsWarning, Empty, Facts, Field, Fold, ObjectLink, ObjectTable, PageHeading, Panel, ProblemBox, StatementForm, TextArea, dependentsOf, numberOf, shown, textOf, timeText, valueColumns, valueText } from './parts.tsx';
import { waitMs } from './poll.ts';
import { type Problem, isObject } from './protocol.ts';
import { go, object } from './route.ts';
import { Pager } from './sections.tsx';
import { zone } from './settings.ts';
import { active } from './tabs.ts';
import { Icon, toast } from './ui.tsx';

const LIST_MS = 2000;
const ROWS_MS = 2000;
const PAGE_ROWS = 100;
const CHANGED_COLUMNS = 50;
/** The least time between two drawings of changes. */
const DRAW_MS = 250;
/** Changes are not read again for a longer absence than this. */
const AWAY_MS_MAX = 60_000;

const EXAMPLE = 'CREATE MATERIALIZED VIEW pages AS\n  SELECT page, COUNT(*) AS n FROM STREAM(clicks) GROUP BY page;';

export function Views(): JSX.Element {
  const name = object.value;
  return (
    <main id="main" class="page objects">
      {name === null ? <List /> : <View name={name} key={name} />}
    </main>
  );
}

function viewsOf(data: Json | null): Row[] {
  return isObject(data) ? rowsOf(data.views ?? []) : [];
}

function List(): JSX.Element {
  const read = useWatch('v1/views', LIST_MS);
  const [find, setFind] = useState('');
  const [begin] = useState(() => takeBegin('view'));
  const all = viewsOf(read.data);
  const found = all.filter((view) => textOf(view.name).toLowerCase().includes(find.toLowerCase()));
  // Failing views first, then by name as the server lists them.
  const rows = [...found].sort((a, b) => Number(b.failing !== null) - Number(a.failing !== null));
  const columns: Array<Column<Row>> = [
    { title: 'View', cell: (view) => <ObjectLink page="views" name={textOf(view.name)} /> },
    { title: 'Of', cell: (view) => shown(textOf(view.of_view) || textOf(view.stream)) },
    { title: 'Lag', number: true, cell: (view) => `${formatShort(numberOf(view.lag_events))} events`, marked: (view) => numberOf(view.lag_events) > 10_000 },
    { title: 'Keys in memory', number: true, cell: (view) => formatShort(numberOf(view.keys_held)) },
    { title: 'Memory', number: true, cell: (view) => formatBytes(numberOf(view.held_bytes)) },
    { title: 'State', wide: true, cell: (view) => stateOf(view), marked: (view) => typeof view.failing === 'string' },
  ];
  return (
    <>
      <PageHeading title="Views" />
      <Fold title="Create a view" begin={begin !== null}>{() => <CreateForm begin={begin} done={(name) => go('views', name)} />}</Fold>
      <section class="panel" aria-label="Views">
        <div class="bar filters">
          <Field label="Name contains" value={find} onInput={setFind} />
        </div>
        <Condition of={read} />
        {read.data !== null && all.length === 0 && <Empty text="There is no view. A view maintains the result of a query, one row a key:" example={EXAMPLE} />}
        {all.length > 0 && rows.length === 0 && <p class="dim">No view has such a name.</p>}
        {rows.length > 0 && <ObjectTable caption="Views" columns={columns} rows={rows} keyOf={(view) => textOf(view.name)} />}
      </section>
    </>
  );
}

/** Begins with the result that is to be kept, or with the question that is open on Ask. */
function CreateForm({ begin, done }: { begin: Begin | null; done(name: string): void }): JSX.Element {
  const [name, setName] = useState('');
  const [query, setQuery] = useState(() => begin?.query ?? queryOfView(active.value?.text.value ?? ''));
  const [backfill, setBackfill] = useState(false);
  const whole = name.trim() !== '' && query.trim() !== '';
  return (
    <StatementForm statement={whole ? createView(name.trim(), query, backfill) : null} button="Create the view" done={() => done(name.trim())}>
      <div class="bar filters">
        <Field label="Name" value={name} onInput={setName} />
        <label class="check">
          <input type="checkbox" checked={backfill} onChange={(event) => setBackfill(event.currentTarget.checked)} />
          <span>Count stored events, too</span>
        </label>
      </div>
      <TextArea label="Query, with GROUP BY or aggregates, over a stored stream or a view" rows={5} value={query} onInput={setQuery} />
      <LeftOut of={begin} />
    </StatementForm>
  );
}

function stateOf(view: Row): string {
  if (typeof view.failing === 'string') return `failing: ${shown(view.failing, 300)}`;
  return view.from_table === true ? 'reads stored events' : 'running';
}

function View({ name }: { name: string }): JSX.Element {
  const read = useWatch('v1/views', LIST_MS);
  const view = viewsOf(read.data).find((one) => one.name === name);
  const created = useWatch(`SHOW CREATE VIEW ${quoteName(name)}`, Infinity);
  const [action, setAction] = useState<Action | null>(null);
  const statement = textOf(rowsOf(created.data ?? [])[0]?.statement);
  const drop = () => {
    dependentsOf(name).then(
      (found) =>
        setAction({
          title: `Drop the view ${shown(name, 60)}`,
          statement: dropStatement('VIEW', name),
          button: 'Drop the view',
          danger: true,
          warning: <DependentsWarning found={found} what="The view and its rows are deleted. The events of its stream stay." />,
          done: () => go('views'),
        }),
      (error: unknown) => toast(problemOfError(error).title),
    );
  };
  return (
    <>
      <PageHeading of="views" title={shown(name, 140)}>
        <button type="button" onClick={() => ask({ text: `SELECT *\nFROM STREAM(${quoteName(name)}, MAX, TIME)` })}>
          Ask
        </button>
        {!readOnly && view !== undefined && (
          <button type="button" onClick={drop}>
            Drop…
          </button>
        )}
      </PageHeading>
      {read.data !== null && view === undefined ? (
        <div class="panel">
          <Empty text="There is no view of this name. It may have been dropped." example={EXAMPLE} />
        </div>
      ) : (
        <div class="columns">
          <div class="column">
            <Rows name={name} />
            <Changes name={name} />
          </div>
          <div class="column">
            <Panel title="Figures">
              <Condition of={read} />
              {view !== undefined && <ViewFacts view={view} />}
            </Panel>
            <Panel title="Statement">
              <Condition of={created} />
              {statement !== '' && <Code text={statement} label="Statement of the view" />}
            </Panel>
            {view !== undefined && <Columns view={view} />}
          </div>
        </div>
      )}
      {action !== null && <ActionDialog action={action} onClose={() => setAction(null)} />}
    </>
  );
}

function ViewFacts({ view }: { view: Row }): JSX.Element {
  const counts = isObject(view.counts) ? view.counts : {};
  const lag = numberOf(view.lag_events);
  return (
    <>
      <p class="bar">
        <span class="dim">{view.of_view === null ? 'Of the stream' : 'Of the view'}</span>
        <ObjectLink page={view.of_view === null ? 'streams' : 'views'} name={textOf(view.of_view) || textOf(view.stream)} />
      </p>
      {typeof view.failing === 'string' && <ProblemBox problem={{ title: view.failing, status: 0 }} quiet />}
      <Facts
        facts={[
          { name: 'Lag', value: `${formatNumber(lag)} events`, warn: lag > 10_000 },
          { name: 'Position', value: formatNumber(numberOf(view.position)) },
          { name: 'On disk up to', value: formatNumber(numberOf(view.committed)) },
          { name: 'Keys in memory', value: formatNumber(numberOf(view.keys_held)) },
          { name: 'Memory', value: formatBytes(numberOf(view.held_bytes)) },
          { name: 'Events', value: formatNumber(numberOf(counts.events)) },
          { name: 'Matched', value: formatNumber(numberOf(counts.matched)) },
          { name: 'Mistyped', value: formatNumber(numberOf(counts.mistyped)), warn: numberOf(counts.mistyped) > 0 },
          { name: 'Late', value: formatNumber(numberOf(counts.late)), warn: numberOf(counts.late) > 0 },
          { name: 'Watermark', value: timeText(view.watermark) || 'none' },
          { name: 'Created', value: timeText(view.created) },
        ]}
      />
    </>
  );
}

function Columns({ view }: { view: Row }): JSX.Element {
  const rows = rowsOf(view.columns ?? []);
  return (
    <Panel title="Columns">
      <ObjectTable
        caption="Columns of the view"
        columns={[
          { title: 'Column', cell: (row: Row) => shown(textOf(row.name)) },
          { title: 'Type', cell: (row: Row) => shown(textOf(row.type)) },
        ]}
        rows={rows}
        keyOf={(_, i) => i}
      />
    </Panel>
  );
}

/** The rows in the order of their keys: all, those whose keys have some first values, or the row of one key. */
function Rows({ name }: { name: string }): JSX.Element {
  const [prefix, setPrefix] = useState('');
  const [key, setKey] = useState('');
  const [wanted, setWanted] = useState<string[] | null>(null);
  const [pages, setPages] = useState<string[]>([]);
  const base = `v1/views/${encodeURIComponent(name)}`;
  const parameters = new URLSearchParams({ limit: String(PAGE_ROWS) });
  const after = pages[pages.length - 1];
  if (prefix.trim() !== '') parameters.set('prefix', prefix.trim());
  if (after !== undefined) parameters.set('after', after);
  const source = wanted === null ? `${base}?${parameters.toString()}` : `${base}/keys/${wanted.join('/')}`;
  const read = useWatch(source, ROWS_MS);
  const data = read.data;
  const rows = wanted === null ? (isObject(data) ? rowsOf(data.rows ?? []) : []) : isObject(data) ? [data] : [];
  const next = wanted === null && isObject(data) && typeof data.next === 'string' ? data.next : null;
  const absent = wanted !== null && read.problem?.status === 404;
  return (
    <Panel title="Rows" note={isObject(data) && typeof data.age_ms === 'number' ? `${formatDuration(data.age_ms)} old, position ${formatNumber(numberOf(data.position))}` : ''}>
      <div class="bar filters">
        <Field
          label="First values of the key, one or as JSON"
          value={prefix}
          placeholder='JFK or ["JFK"]'
          onInput={(value) => {
            setPages([]);
            setWanted(null);
            setPrefix(value);
          }}
        />
        <form
          class="bar"
          onSubmit={(event) => {
            event.preventDefault();
            const segments = keySegments(key);
            setWanted(segments.length === 0 ? null : segments);
          }}
        >
          <Field label="Key, values separated by / or as JSON" value={key} placeholder='JFK/LAX or ["JFK","LAX"]' onInput={setKey} />
          <button type="submit">Show the row</button>
          {wanted !== null && (
            <button type="button" onClick={() => setWanted(null)}>
              Show all rows
            </button>
          )}
        </form>
      </div>
      {absent ? <p class="dim">The view has no row of this key.</p> : <Condition of={read} />}
      {wanted === null && data !== null && rows.length === 0 && <p class="dim">{prefix === '' && pages.length === 0 ? 'The view has no row yet. Its first event makes one.' : 'No key has these first values.'}</p>}
      {rows.length > 0 && !absent && <ObjectTable caption="Rows of the view" columns={valueColumns(columnsOf(rows))} rows={rows} keyOf={(_, i) => i} />}
      {wanted === null && <Pager pages={pages} next={next} show={setPages} />}
    </Panel>
  );
}

interface FeedState {
  changes: readonly Change[];
  count: number;
  position: number | null;
  /** Why the feed is interrupted; null: it is not. */
  problem: Problem | null;
  begun: boolean;
  /** Changes of a long absence are left out. */
  skipped: boolean;
}

const NO_CHANGES: FeedState = { changes: [], count: 0, position: null, problem: null, begun: false, skipped: false };

/**
 * Follows the changes while it is not paused and the page is visible; after a lost connection or a short absence it goes on behind the
 * last position, after a long absence it begins from now.
 */
function useChanges(name: string, paused: boolean): FeedState {
  const [state, setState] = useState(NO_CHANGES);
  const [hidden, setHidden] = useState(document.hidden);
  useEffect(() => {
    const visibility = () => setHidden(document.hidden);
    document.addEventListener('visibilitychange', visibility);
    return () => document.removeEventListener('visibilitychange', visibility);
  }, []);
  const feed = useRef<ChangeFeed | null>(null);
  const left = useRef<number | null>(null);
  const skipped = useRef(false);
  useEffect(() => {
    if (paused || hidden) return;
    const current = (feed.current ??= new ChangeFeed());
    if (left.current !== null && Date.now() - left.current > AWAY_MS_MAX && current.position !== null) {
      current.position = null;
      skipped.current = true;
    }
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let drawn = 0;
    let drawing: ReturnType<typeof setTimeout> | undefined;
    let failures = 0;
    let problem: Problem | null = null;
    let begun = false;
    const draw = () => {
      if (drawing !== undefined) return;
      drawing = setTimeout(() => {
        drawing = undefined;
        drawn = Date.now();
        setState({ changes: [...current.changes], count: current.count, position: current.position, problem, begun, skipped: skipped.current });
      }, Math.max(0, drawn + DRAW_MS - Date.now()));
    };
    const follow = async () => {
      try {
        const from = current.position === null ? '' : `?from=${current.position}`;
        const answer = await fetch(new URL(`v1/views/${encodeURIComponent(name)}/changes${from}`, documentBase), {
          headers: { accept: 'application/x-ndjson' },
          signal: abort.signal,
        });
        if (!answer.ok || answer.body === null) throw new Failure(await problemOf(answer));
        begun = true;
        problem = null;
        failures = 0;
        draw();
        await readLines(answer.body, {
          line: (text) => {
            current.line(text, Date.now());
            draw();
          },
        });
      } catch (error) {
        if (abort.signal.aborted) return;
        problem = error instanceof Failure ? error.problem : { title: 'The feed was interrupted.', status: 0 };
        // A position that the server does not know any more: the feed begins anew.
        if (problem.status === 400) current.position = null;
      }
      if (abort.signal.aborted) return;
      failures += 1;
      draw();
      timer = setTimeout(() => void follow(), waitMs(0, failures));
    };
    void follow();
    return () => {
      left.current = Date.now();
      abort.abort();
      clearTimeout(timer);
      clearTimeout(drawing);
    };
  }, [name, paused, hidden]);
  return state;
}

function Changes({ name }: { name: string }): JSX.Element {
  const [paused, setPaused] = useState(false);
  const state = useChanges(name, paused);
  const timeZone = zone();
  const names = columnsOf(state.changes.map((change) => change.row), CHANGED_COLUMNS);
  const columns: Array<Column<Change>> = [
    { title: 'Key', cell: (change) => <code>{shown(change.key, 100)}</code> },
    { title: `Time, ${zoneName(Date.now(), timeZone)}`, cell: (change) => formatClock(change.at, timeZone) },
    ...names.map((column): Column<Change> => ({
      title: shown(column),
      cell: (change) =>
        change.row === null ? (
          <span class="dim">deleted</span>
        ) : change.changed?.includes(column) === true ? (
          <>
            {valueText(Object.hasOwn(change.row, column) ? change.row[column] : undefined)}
            <span class="unseen">, changed</span>
          </>
        ) : (
          valueText(Object.hasOwn(change.row, column) ? change.row[column] : undefined)
        ),
      marked: (change) => change.changed?.includes(column) === true,
    })),
  ];
  return (
    <Panel
      title="Changes"
      note={state.count > 0 ? `${formatNumber(state.count)} since this page was opened` : ''}
      actions={
        <button type="button" class="quiet" aria-pressed={paused} onClick={() => setPaused(!paused)}>
          <Icon name={paused ? 'run' : 'pause'} />
          {paused ? 'Resume changes' : 'Pause changes'}
        </button>
      }
    >
      {state.problem !== null && !paused && <p class="notice stale">{shown(state.problem.detail ?? state.problem.title, 300)} It is read again soon.</p>}
      {state.skipped && <p class="dim">Changes from times of more than a minute in which the feed was paused or hidden are left out.</p>}
      {state.changes.length === 0 && state.problem === null && <p class="dim">{state.begun ? 'No key has changed yet.' : 'Loading…'}</p>}
      {state.changes.length > 0 && <ObjectTable caption="Changed keys, the newest first" columns={columns} rows={state.changes} keyOf={(change) => change.number} />}
    </Panel>
  );
}
