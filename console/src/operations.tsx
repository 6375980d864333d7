/** What the server does now and did in the last minutes: totals, dearest queries, statements, shards, latency, memory, settings. */
import type { JSX } from 'preact';
import { useMemo, useRef, useState } from 'preact/hooks';
import { formatBytes, formatDuration, formatNumber, formatShort } from './format.ts';
import type { Json } from './json.ts';
import { Failure, readOnly, send, useWatch } from './objects.ts';
import { Latency, Memory, Queues, Routes, Shards, Storage, Tables, Totals } from './operations_charts.tsx';
import { INTERVAL_MS, useMetrics } from './operations_data.ts';
import { type DearQuery, type QueryCost, type Setting, type Sort, SORTS, dearest, filterSettings, inOrder, readQueries, readSettings } from './operations_view.ts';
import { features } from './page_table.ts';
import { isObject } from './protocol.ts';
import { Condition, Panel, numberOf, shown, textOf } from './parts.tsx';
import { AskOnce, type Cell, Grid, type Question, StreamLink, age, percent, useFocusKept } from './sections.tsx';
import { cut, visible, visibleLines } from './text.ts';
import { Icon } from './ui.tsx';

const QUERIES_SHOWN = 50;
const SETTINGS_SHOWN = 400;

export function Operations(): JSX.Element {
  const metrics = useMetrics();
  const settings = useWatch('v1/settings', Infinity);
  const known = useMemo(() => readSettings(settings.data), [settings.data]);
  const { data: series, version } = metrics;
  return (
    <main id="main" class="page operations-page">
      <h1>Operations</h1>
      <Condition of={metrics} />
      {series !== null && series.leftOut > 0 && <p class="notice">{formatNumber(series.leftOut)} values of the server found no room: the figures and curves lack them.</p>}
      {series !== null && <Totals series={series} version={version} />}
      <Queries />
      {features.value?.includes('sql') === true && <Statements />}
      {series !== null && (
        <>
          <Latency series={series} version={version} />
          <div class="halves">
            <Shards series={series} version={version} />
            <Memory series={series} />
            <Queues series={series} settings={known} />
            <Storage series={series} version={version} />
          </div>
          <Tables series={series} version={version} />
          <Routes series={series} version={version} />
        </>
      )}
      {settings.problem?.status !== 404 && <Settings watched={settings} settings={known} />}
    </main>
  );
}

const SORT_NAMES: { [sort in Sort]: string } = { cpu: 'CPU', state: 'State', matches: 'Matches', out: 'Out' };

const rate = (value: number | null, write: (value: number) => string) => (value === null ? '–' : write(value));

function Queries(): JSX.Element {
  const [sort, setSort] = useState<Sort>('cpu');
  const watched = useWatch(`v1/queries?sort=${sort}&limit=${QUERIES_SHOWN}`, INTERVAL_MS);
  const [asked, setAsked] = useState<Question | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const rowGoes = useFocusKept(box);
  const earlier = useRef<{ at: number; queries: Map<string, QueryCost> } | null>(null);
  const latest = useRef<{ at: number; queries: Map<string, QueryCost> } | null>(null);
  const order = useRef<string[]>([]);
  const touched = useRef(false);
  const rows = useMemo(() => {
    if (watched.data === null || watched.at === null) return null;
    const queries = readQueries(watched.data).filter(({ finished }) => !finished);
    if (latest.current?.at !== watched.at) {
      earlier.current = latest.current;
      latest.current = { at: watched.at, queries: new Map(queries.map((query) => [query.id, query])) };
    }
    return dearest(queries, earlier.current?.queries ?? new Map(), watched.at - (earlier.current?.at ?? watched.at), sort);
  }, [watched.data, watched.at, sort]);
  // While the reader points at the list or is in it, its order stays.
  const shownRows = rows === null ? [] : touched.current ? inOrder(rows, order.current) : rows;
  order.current = shownRows.map(({ id }) => id);
  const end = (query: DearQuery) =>
    setAsked({
      title: `End query ${shown(query.id, 40)}`,
      text: query.text,
      warning: query.detached ? 'The query ends, and its unread results are lost.' : 'The query ends. Its client gets a last result with the reason `killed`.',
      button: 'End query',
      run: () => send('DELETE', `v1/queries/${encodeURIComponent(query.id)}`, null).catch(gone),
      done: () => {
        rowGoes();
        watched.again();
      },
    });
  const columns: Array<Cell<DearQuery>> = [
    { title: 'Query', wide: true, cell: ({ text }) => <code title={visible(cut(text, 2000))}>{shown(text.replace(/\s+/g, ' '), 160)}</code> },
    ...(readOnly
      ? []
      : [
          {
            title: 'Action',
            unseen: true,
            cell: (query: DearQuery) => (
              <button type="button" onClick={() => end(query)}>
                End<span class="unseen"> query {shown(query.id, 40)}</span>
              </button>
            ),
          },
        ]),
    { title: 'Stream', cell: ({ stream }) => (stream === '' ? '–' : <StreamLink name={stream} />) },
    { title: 'CPU', number: true, cell: ({ cpuShare, cpuNanos }) => <Cost now={rate(cpuShare, percent)} total={formatDuration(cpuNanos / 1e6)} /> },
    { title: 'State', number: true, cell: ({ stateBytes }) => formatBytes(stateBytes) },
    { title: 'Matches', number: true, cell: ({ matchesPerSecond, matches }) => <Cost now={`${rate(matchesPerSecond, formatShort)}/s`} total={formatShort(matches)} /> },
    { title: 'Out', number: true, cell: ({ bytesOutPerSecond, bytesOut }) => <Cost now={`${rate(bytesOutPerSecond, formatBytes)}/s`} total={formatBytes(bytesOut)} /> },
    { title: 'Dropped', number: true, cell: ({ dropped }) => formatNumber(dropped) },
    { title: 'Lag', number: true, cell: ({ lagMs }) => formatDuration(lagMs) },
    { title: 'Age', number: true, cell: ({ received }) => age(received) },
    { title: 'Id', cell: ({ id }) => <code>{shown(id, 40)}</code> },
  ];
  return (
    <Panel
      title="Dearest queries"
      note={rows !== null && rows.length >= QUERIES_SHOWN ? `the first ${QUERIES_SHOWN}` : 'now, and since their begin'}
      actions={
        <div class="forms" role="group" aria-label="Order of queries">
          {SORTS.map((one) => (
            <button key={one} type="button" aria-pressed={sort === one} onClick={() => setSort(one)}>
              {SORT_NAMES[one]}
            </button>
          ))}
        </div>
      }
    >
      <Condition of={rows === null ? { ...watched, data: null } : watched} />
      {rows !== null && rows.length === 0 && (
        <p class="dim">
          No query runs. <a href="#/ask">Ask</a> runs one.
        </p>
      )}
      <div
        ref={box}
        tabIndex={-1}
        onPointerEnter={() => (touched.current = true)}
        onPointerLeave={() => (touched.current = false)}
        onFocusCapture={() => (touched.current = true)}
        onBlurCapture={() => (touched.current = false)}
      >
        {shownRows.length > 0 && <Grid<DearQuery> caption="Dearest queries" columns={columns} rows={shownRows} keyOf={({ id }) => id} />}
      </div>
      {asked !== null && <AskOnce question={asked} onClose={() => setAsked(null)} />}
    </Panel>
  );
}

function Cost({ now, total }: { now: string; total: string }): JSX.Element {
  return (
    <>
      {now}
      <span class="dim sub">{total}</span>
    </>
  );
}

/** What has ended by itself meanwhile needs no end. */
function gone(error: unknown): null {
  if (error instanceof Failure && error.problem.status === 404) return null;
  throw error;
}

function Statements(): JSX.Element {
  const watched = useWatch('v1/sql', INTERVAL_MS);
  const [asked, setAsked] = useState<Question | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const rowGoes = useFocusKept(box);
  const rows = statementsOf(watched.data);
  const cancel = (id: string, text: string) =>
    setAsked({
      title: `Cancel statement ${shown(id, 40)}`,
      text,
      warning: 'The statement ends with an error, and its client gets no more rows.',
      button: 'Cancel statement',
      run: () => send('DELETE', `v1/sql/${encodeURIComponent(id)}`, null).catch(gone),
      done: () => {
        rowGoes();
        watched.again();
      },
    });
  const columns: Array<Cell<Statement>> = [
    { title: 'Statement', wide: true, cell: ({ text }) => <code title={visible(cut(text, 2000))}>{shown(text.replace(/\s+/g, ' '), 160)}</code> },
    ...(readOnly
      ? []
      : [
          {
            title: 'Action',
            unseen: true,
            cell: ({ id, text }: Statement) => (
              <button type="button" onClick={() => cancel(id, text)}>
                Cancel<span class="unseen"> statement {shown(id, 40)}</span>
              </button>
            ),
          },
        ]),
    {
      title: 'Done',
      number: true,
      cell: ({ percent: done }) =>
        done === null ? (
          '–'
        ) : (
          <>
            <Progress share={done / 100} /> {formatNumber(done, undefined, 0)} %
          </>
        ),
    },
    { title: 'Runs', number: true, cell: ({ elapsedMs }) => formatDuration(elapsedMs) },
    { title: 'Rows read', number: true, cell: ({ rowsScanned }) => formatShort(rowsScanned) },
    { title: 'Bytes read', number: true, cell: ({ bytesScanned }) => formatBytes(bytesScanned) },
    { title: 'Rows out', number: true, cell: ({ rowsReturned }) => formatShort(rowsReturned) },
    { title: 'Id', cell: ({ id }) => <code>{shown(id, 40)}</code> },
  ];
  return (
    <Panel title="SQL statements" note="running and waiting">
      <Condition of={watched} />
      <div ref={box} tabIndex={-1}>
        {watched.data !== null && rows.length === 0 && <p class="dim">No statement runs. Statements of clients and jobs are listed here while they run.</p>}
        {rows.length > 0 && <Grid<Statement> caption="Running SQL statements" columns={columns} rows={rows} keyOf={({ id }) => id} />}
      </div>
      {asked !== null && <AskOnce question={asked} onClose={() => setAsked(null)} />}
    </Panel>
  );
}

function Progress({ share }: { share: number }): JSX.Element {
  return (
    <span class="shares" aria-hidden="true">
      <span class="share share-0" style={{ left: '0', width: `${Math.max(0, Math.min(1, share)) * 100}%` }} />
    </span>
  );
}

interface Statement {
  id: string;
  text: string;
  elapsedMs: number;
  rowsScanned: number;
  bytesScanned: number;
  rowsReturned: number;
  percent: number | null;
}

function statementsOf(data: Json): Statement[] {
  if (!isObject(data) || !Array.isArray(data.statements)) return [];
  return data.statements.flatMap((one): Statement[] => {
    if (!isObject(one) || typeof one.id !== 'string') return [];
    return [
      {
        id: one.id,
        text: textOf(one.query),
        elapsedMs: numberOf(one.elapsed_ms),
        rowsScanned: numberOf(one.rows_scanned),
        bytesScanned: numberOf(one.bytes_scanned),
        rowsReturned: numberOf(one.rows_returned),
        percent: typeof one.percent === 'number' ? one.percent : null,
      },
    ];
  });
}

function Settings({ watched, settings }: { watched: ReturnType<typeof useWatch>; settings: readonly Setting[] }): JSX.Element {
  const [filter, setFilter] = useState('');
  const found = useMemo(() => filterSettings(settings, filter), [settings, filter]);
  const changed = settings.reduce((sum, one) => sum + Number(one.changed), 0);
  return (
    <Panel
      title="Settings"
      note={watched.data === null ? '' : `${formatNumber(changed)} of ${formatNumber(settings.length)} differ from their default`}
      actions={
        <label class="find">
          <Icon name="search" />
          <span class="unseen">Find a setting</span>
          <input type="search" placeholder="Find a setting" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
        </label>
      }
    >
      <Condition of={watched} />
      {watched.data !== null && found.length === 0 && <p class="dim">No setting has these words.</p>}
      {found.length > 0 && (
        <Grid<Setting>
          caption="Settings of the server, the changed ones first"
          rows={found.slice(0, SETTINGS_SHOWN)}
          keyOf={({ name }) => name}
          marked={(setting) => setting.changed}
          columns={[
            { title: 'Setting', wrap: true, cell: ({ name }) => <code>{shown(name, 100)}</code> },
            { title: 'Value', wrap: true, cell: ({ value }) => <code>{value === '' ? '–' : shown(value, 200)}</code> },
            { title: 'Set by', wrap: true, cell: ({ changed: own, origin }) => (own ? <b>{origin === '' ? 'changed' : shown(origin, 100)}</b> : <span class="dim">default</span>) },
            { title: 'Default', wrap: true, cell: ({ default: value }) => <code>{value === '' ? '–' : shown(value, 200)}</code> },
            { title: 'Help', wide: true, cell: ({ doc, allowed }) => <Help doc={doc} allowed={allowed} /> },
          ]}
        />
      )}
      {found.length > SETTINGS_SHOWN && <p class="dim">{formatNumber(found.length - SETTINGS_SHOWN)} more: type a part of the name.</p>}
    </Panel>
  );
}

function Help({ doc, allowed }: { doc: string; allowed: string }): JSX.Element {
  return (
    <>
      {visibleLines(cut(doc, 1000))}
      {allowed !== '' && <span class="dim sub">Allowed: {shown(allowed, 300)}</span>}
    </>
  );
}
