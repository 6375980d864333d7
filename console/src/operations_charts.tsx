/** The parts of Operations that metrics fill: totals, shards, latency, memory, queues, log, tables, disk, HTTP. */
import type { JSX } from 'preact';
import { useMemo, useRef, useState } from 'preact/hooks';
import { type Drawing, HeatMap, LineChart } from './chart.tsx';
import { serverNow } from './client.ts';
import { formatBytes, formatClock, formatDuration, formatNumber, formatShort, zoneName } from './format.ts';
import { type Curve, type MetricsSeries, type Shard, STAGES, SPAN_MS, distribution, quantile, shards } from './metrics_series.ts';
import { type Route, type Setting, heatOverTime, readSize, routes } from './operations_view.ts';
import { Panel, shown } from './parts.tsx';
import { Grid, Shares, StreamLink, percent, shortTime } from './sections.tsx';
import { zone } from './settings.ts';
import { Icon, useElement, useWidth } from './ui.tsx';

const NOW_MS = 10_000;
const MINUTE_MS = 60_000;
const ROWS_SHOWN = 20;

const bytes = (value: number | null): string => (value === null ? '–' : formatBytes(value));
const whole = (value: number | null): string => (value === null ? '–' : formatNumber(value, undefined, 0));
const short = (value: number | null): string => (value === null ? '–' : formatShort(value));
const perSecond = (value: number) => `${formatBytes(value)}/s`;

interface Line {
  name: string;
  values: Curve;
}

/** Curves with a title, a cursor and their numbers as a table. */
function Curves(props: { title: string; times: number[]; lines: Line[]; measure: string; write?: (value: number) => string }): JSX.Element {
  const [asTable, setAsTable] = useState(false);
  const drawing = useRef<(() => HTMLCanvasElement | null) | null>(null) as Drawing;
  const { title, lines, write } = props;
  const picture = useMemo(() => ({ x: [...props.times], series: lines, measure: props.measure, gaps: [] }), [props.times[props.times.length - 1], lines]);
  return (
    <div class="curves">
      <LineChart picture={picture} form="area" title={title} asTable={asTable} drawing={drawing} height={150} of="seconds" {...(write === undefined ? {} : { write })} />
      <TableSwitch title={title} asTable={asTable} onSwitch={setAsTable} />
    </div>
  );
}

function TableSwitch({ title, asTable, onSwitch }: { title: string; asTable: boolean; onSwitch(to: boolean): void }): JSX.Element {
  return (
    <button type="button" class="quiet as-table" aria-pressed={asTable} aria-label={`As table: ${title}`} onClick={() => onSwitch(!asTable)}>
      As table
    </button>
  );
}

interface Figure {
  name: string;
  value: string;
  warn?: boolean;
}

function Figures({ figures }: { figures: readonly Figure[] }): JSX.Element {
  return (
    <dl class="figures">
      {figures.map(({ name, value, warn }) => (
        <div key={name} class={warn === true ? 'warned' : ''}>
          <dt>{name}</dt>
          <dd>
            {warn === true && <Icon name="warn" />}
            {value}
          </dd>
        </div>
      ))}
    </dl>
  );
}

export function Totals({ series, version }: { series: MetricsSeries; version: number }): JSX.Element {
  const curves = useMemo(
    () => ({
      events: [{ name: 'events', values: series.rates('swiftwater_stream_events_total') }],
      bytes: [{ name: 'bytes', values: series.rates('swiftwater_stream_bytes_total') }],
      queries: [{ name: 'queries', values: series.values('swiftwater_queries') }],
      out: [
        { name: 'sent', values: series.rates('swiftwater_records_out_total') },
        { name: 'dropped', values: series.rates('swiftwater_records_dropped_total') },
      ],
    }),
    [version],
  );
  const began = series.now('process_start_time_seconds');
  const dropped = series.now('swiftwater_records_dropped_total');
  const cores = series.rate('process_cpu_seconds_total', NOW_MS);
  const faults = series.now('swiftwater_faults_total') ?? 0;
  return (
    <Panel title="Totals" note="rates of the last 10 seconds, curves of the last 15 minutes">
      <Figures
        figures={[
          { name: 'Events a second', value: short(series.rate('swiftwater_stream_events_total', NOW_MS) ?? 0) },
          { name: 'Bytes a second', value: bytes(series.rate('swiftwater_stream_bytes_total', NOW_MS) ?? 0) },
          { name: 'Queries', value: whole(series.now('swiftwater_queries')) },
          { name: 'Records out a second', value: short(series.rate('swiftwater_records_out_total', NOW_MS)) },
          { name: 'Records dropped', value: whole(dropped), warn: (dropped ?? 0) > 0 },
          { name: 'Cores busy', value: short(cores) },
          { name: 'Resident memory', value: bytes(series.now('process_resident_memory_bytes')) },
          { name: 'Connections', value: whole(series.now('swiftwater_http_connections')) },
          { name: 'Up', value: began === null ? '–' : formatDuration(Math.max(0, serverNow() - began * 1000)) },
          ...(faults > 0 ? [{ name: 'Panics contained', value: whole(faults), warn: true }] : []),
        ]}
      />
      <div class="charts">
        <Curves title="Events a second" times={series.times} lines={curves.events} measure="events a second" />
        <Curves title="Bytes a second" times={series.times} lines={curves.bytes} measure="bytes a second" write={perSecond} />
        <Curves title="Queries" times={series.times} lines={curves.queries} measure="queries" />
        <Curves title="Records out a second" times={series.times} lines={curves.out} measure="records a second" />
      </div>
    </Panel>
  );
}

export function Shards({ series, version }: { series: MetricsSeries; version: number }): JSX.Element {
  const rows = useMemo(() => shards(series, NOW_MS), [version]);
  return (
    <Panel title="Shards" note="share of the last 10 seconds in each stage">
      {rows.length === 0 ? (
        <p class="dim">The server reports no shards.</p>
      ) : (
        <Grid<Shard>
          caption="Shards: share of time in each stage"
          rows={rows}
          keyOf={({ shard }) => shard}
          columns={[
            { title: 'Shard', cell: ({ shard }) => shown(shard, 20) },
            { title: 'Busy', cell: ({ shares }) => <Shares shares={shares} /> },
            { title: 'Events/s', number: true, cell: ({ eventsPerSecond }) => short(eventsPerSecond) },
            ...STAGES.map((stage, i) => ({ title: stage, number: true, cell: ({ shares }: Shard) => percent(shares[i] ?? 0) })),
            { title: 'idle', number: true, cell: ({ idle }) => percent(idle) },
          ]}
        />
      )}
    </Panel>
  );
}

const within = (value: number | null): string => (value === null ? '–' : Number.isFinite(value) ? `< ${shortTime(value)}` : '> 5 s');

export function Latency({ series, version }: { series: MetricsSeries; version: number }): JSX.Element {
  const [box, setBox] = useElement<HTMLDivElement>();
  const width = useWidth(box);
  const drawing = useRef<(() => HTMLCanvasElement | null) | null>(null) as Drawing;
  const timeZone = zone();
  // Whole parts of 15 minutes, so that the times of the columns differ.
  const columns = [15, 10, 5].find((count) => count * 62 + 110 <= width) ?? 5;
  const heat = useMemo(
    () => heatOverTime(series, 'swiftwater_read_to_match_seconds', columns, SPAN_MS, shortTime, (ms) => formatClock(ms, timeZone).slice(0, 5)),
    [version, columns, timeZone],
  );
  const end = series.times[series.times.length - 1] ?? 0;
  const last = distribution(series, 'swiftwater_read_to_match_seconds', end - MINUTE_MS, end);
  return (
    <Panel title="Read-to-match latency" note="time of a batch from its reading to the end of its matching">
      <Figures
        figures={[
          { name: 'p50, last minute', value: within(quantile(last, 0.5)) },
          { name: 'p99, last minute', value: within(quantile(last, 0.99)) },
          { name: 'Batches, last minute', value: whole(last.total) },
        ]}
      />
      <div ref={setBox}>
        {heat === null ? (
          <p class="dim">No batch was matched in the last 15 minutes.</p>
        ) : (
          <HeatMap picture={heat} title={`Batches by latency over 15 minutes, times in ${zoneName(end, timeZone)}`} drawing={drawing} />
        )}
      </div>
    </Panel>
  );
}

interface Fill {
  name: string;
  now: number;
  most: number | null;
  write: (value: number) => string;
}

function Fills({ caption, fills }: { caption: string; fills: readonly Fill[] }): JSX.Element {
  const share = ({ now, most }: Fill) => (most === null || most <= 0 ? null : now / most);
  const near = (fill: Fill) => (share(fill) ?? 0) >= 0.8;
  return (
    <Grid<Fill>
      caption={caption}
      rows={fills}
      keyOf={({ name }) => name}
      columns={[
        {
          title: 'Name',
          cell: (fill) => (
            <>
              {near(fill) && <Icon name="warn" />} {shown(fill.name, 60)}
              {near(fill) && <span class="unseen"> (near its limit)</span>}
            </>
          ),
        },
        { title: 'Used', cell: (fill) => <Shares shares={share(fill) === null ? [] : [share(fill) ?? 0]} /> },
        { title: 'Now', number: true, cell: ({ now, write }) => write(now) },
        { title: 'Limit', number: true, cell: ({ most, write }) => (most === null ? 'none' : write(most)) },
        { title: '%', number: true, cell: (fill) => (share(fill) === null ? '–' : percent(share(fill) ?? 0)) },
      ]}
    />
  );
}

const OWNERS: { [owner: string]: string } = {
  pending: 'Events that wait for a shard',
  subscribers: 'Emits that wait for readers',
  state: 'State of queries',
  recent: 'Newest events',
  index: 'Index of query conditions',
};

export function Memory({ series }: { series: MetricsSeries }): JSX.Element {
  const fills = series.of('swiftwater_memory_bytes').flatMap(({ labels }): Fill[] => {
    const owner = labels.get('owner') ?? '';
    const now = series.now('swiftwater_memory_bytes', { owner });
    const name = Object.hasOwn(OWNERS, owner) ? (OWNERS[owner] as string) : owner;
    return now === null ? [] : [{ name, now, most: series.now('swiftwater_memory_bytes_max', { owner }), write: formatBytes }];
  });
  return (
    <Panel title="Memory" note="by owner">
      <Fills caption="Memory by owner against its limit" fills={fills} />
    </Panel>
  );
}

export function Queues({ series, settings }: { series: MetricsSeries; settings: readonly Setting[] }): JSX.Element {
  const limit = (name: string): number | null => {
    const setting = settings.find((one) => one.name === name);
    const most = setting === undefined ? null : readSize(setting.value);
    return most === 0 ? null : most;
  };
  const fill = (name: string, metric: string, most: number | null, write: (value: number) => string, where = {}): Fill[] => {
    const now = series.now(metric, where);
    return now === null ? [] : [{ name, now, most, write }];
  };
  const fills = [
    ...fill('Events that wait for a shard', 'swiftwater_memory_bytes', series.now('swiftwater_memory_bytes_max', { owner: 'pending' }), formatBytes, { owner: 'pending' }),
    ...fill('Emits that wait for readers', 'swiftwater_memory_bytes', limit('engine.subscribers_bytes_max'), formatBytes, { owner: 'subscribers' }),
    ...fill('Unfinished input', 'swiftwater_unfinished_bytes', limit('server.unfinished_bytes_max'), formatBytes),
    ...fill('Events that wait for a sync of the log', 'swiftwater_log_queued_bytes', null, formatBytes),
    ...fill('Rows that wait for their commit', 'swiftwater_table_waiting_bytes', null, formatBytes),
    ...fill('Connections', 'swiftwater_http_connections', limit('server.connections_max'), whole),
    ...fill('Running searches', 'swiftwater_search_running', limit('search.searches_max'), whole),
    ...fill('Waiting searches', 'swiftwater_search_waiting', limit('search.waiting_max'), whole),
  ];
  return (
    <Panel title="Queues">
      <Fills caption="Queues and how full they are" fills={fills} />
    </Panel>
  );
}

/** The log and the files; absent on a server without data. */
export function Storage({ series, version }: { series: MetricsSeries; version: number }): JSX.Element | null {
  const written = useMemo(() => [{ name: 'synced', values: series.rates('swiftwater_log_bytes_total') }], [version]);
  if (!series.has('swiftwater_log_bytes_total')) return null;
  const syncs = series.lately('swiftwater_log_syncs_total', MINUTE_MS);
  const seconds = series.lately('swiftwater_log_sync_seconds_total', MINUTE_MS);
  const tables = series.now('swiftwater_table_file_bytes');
  return (
    <Panel title="Log and disk">
      <Figures
        figures={[
          { name: 'Synced', value: bytes(series.now('swiftwater_log_bytes_total')) },
          { name: 'Syncs a second', value: short(series.rate('swiftwater_log_syncs_total', NOW_MS)) },
          { name: 'Mean sync time, last minute', value: syncs === null || syncs === 0 || seconds === null ? '–' : shortTime(seconds / syncs) },
          { name: 'Queue', value: bytes(series.now('swiftwater_log_queued_bytes')) },
          { name: 'Files of the log', value: bytes(series.now('swiftwater_log_file_bytes')) },
          { name: 'Files of tables', value: bytes(tables) },
        ]}
      />
      <Curves title="Log: bytes synced a second" times={series.times} lines={written} measure="bytes a second" write={perSecond} />
    </Panel>
  );
}

interface Table {
  stream: string;
  lag: number;
  seconds: number | null;
  files: number | null;
  bytes: number | null;
  heldBack: number | null;
  failing: boolean;
}

export function Tables({ series, version }: { series: MetricsSeries; version: number }): JSX.Element | null {
  const rows = useMemo(() => {
    const all = series.of('swiftwater_table_lag_events').flatMap(({ labels }): Table[] => {
      const stream = labels.get('stream') ?? '';
      const lag = series.now('swiftwater_table_lag_events', { stream });
      if (lag === null) return [];
      return [
        {
          stream,
          lag,
          seconds: series.now('swiftwater_stream_lag_seconds', { stream }),
          files: series.now('swiftwater_table_files', { stream }),
          bytes: series.now('swiftwater_table_file_bytes', { stream }),
          heldBack: series.now('swiftwater_table_held_back_total', { stream }),
          failing: (series.now('swiftwater_table_failing', { stream }) ?? 0) > 0,
        },
      ];
    });
    return all.sort((a, b) => Number(b.failing) - Number(a.failing) || b.lag - a.lag || (a.stream < b.stream ? -1 : 1));
  }, [version]);
  if (rows.length === 0) return null;
  return (
    <Panel title="Tables of streams" note={rows.length > ROWS_SHOWN ? `the ${ROWS_SHOWN} with the largest lag of ${formatNumber(rows.length)}` : 'largest lag first'}>
      <Grid<Table>
        caption="Tables of streams and their lag"
        rows={rows.slice(0, ROWS_SHOWN)}
        keyOf={({ stream }) => stream}
        columns={[
          {
            title: 'Stream',
            cell: ({ stream, failing }) => (
              <>
                {stream === '(others)' ? stream : <StreamLink name={stream} />}
                {failing && (
                  <span class="failing">
                    <Icon name="warn" /> commit is retried
                  </span>
                )}
              </>
            ),
          },
          { title: 'Events behind', number: true, cell: ({ lag }) => whole(lag) },
          { title: 'Oldest waits', number: true, cell: ({ seconds }) => (seconds === null ? '–' : shortTime(seconds)) },
          { title: 'Files', number: true, cell: ({ files }) => whole(files) },
          { title: 'Size', number: true, cell: ({ bytes: size }) => bytes(size) },
          { title: 'Requests held back', number: true, cell: ({ heldBack }) => whole(heldBack) },
        ]}
      />
    </Panel>
  );
}

export function Routes({ series, version }: { series: MetricsSeries; version: number }): JSX.Element {
  const rows = useMemo(() => routes(series, NOW_MS), [version]);
  return (
    <Panel title="HTTP" note="requests since the start; mean time of the last minute">
      {rows.length === 0 ? (
        <p class="dim">The server has answered no request yet.</p>
      ) : (
        <Grid<Route>
          caption="Routes of HTTP"
          rows={rows.slice(0, 2 * ROWS_SHOWN)}
          keyOf={({ route }) => route}
          columns={[
            { title: 'Route', cell: ({ route }) => <code>{shown(route, 80)}</code> },
            { title: 'Requests', number: true, cell: ({ requests }) => whole(requests) },
            { title: 'A second', number: true, cell: ({ perSecond: rate }) => short(rate) },
            { title: 'Refused (4xx)', number: true, cell: ({ refused }) => whole(refused) },
            { title: 'Failed (5xx)', number: true, cell: ({ failed }) => whole(failed) },
            { title: 'Mean time', number: true, cell: ({ mean }) => (mean === null ? '–' : shortTime(mean)) },
          ]}
        />
      )}
    </Panel>
  );
}
