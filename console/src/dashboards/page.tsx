/** The page of dashboards: their list, and one of them with its panels. */
import type { JSX } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { serverNow } from '../client.ts';
import { isZone } from '../fragment.ts';
import { formatJson } from '../json.ts';
import { type Watched, problemOfError, readOnly } from '../objects.ts';
import { Condition, PageHeading, shown } from '../parts.tsx';
import { addressOf, object } from '../route.ts';
import { pageZone } from '../settings.ts';
import { copyLink } from '../short_links.tsx';
import { Menu, download, useElement } from '../ui.tsx';
import { Bar } from './bar.tsx';
import { type Panel, freshId } from './document.ts';
import { EditTools } from './edit_tools.tsx';
import { type Editing, jsonOf, openEditing } from './editing.ts';
import { useFullScreen } from './full_screen.ts';
import { freePlace, move } from './layout.ts';
import { List } from './list.tsx';
import { Markdown } from './markdown_view.tsx';
import type { Surround } from './panel_data.ts';
import { PanelForm } from './panel_form.tsx';
import { PanelGrid } from './panel_grid.tsx';
import { type Chosen, NOTHING, readChosen, settingsOf, writeChosen } from './variables.ts';

export function Dashboards(): JSX.Element {
  const name = object.value;
  return (
    <main id="main" class="page objects">
      {name === null ? <List /> : <Opened name={name} key={name} />}
    </main>
  );
}

/** Reads the dashboard once; changes of others are met when this one is saved. */
function Opened({ name }: { name: string }): JSX.Element {
  const [state, setState] = useState<Pick<Watched<Editing>, 'data' | 'problem'>>({ data: null, problem: null });
  const [tries, setTries] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    openEditing(name, !readOnly, abort.signal).then(
      (data) => !abort.signal.aborted && setState({ data, problem: null }),
      (error: unknown) => !abort.signal.aborted && setState({ data: null, problem: problemOfError(error) }),
    );
    return () => abort.abort();
  }, [name, tries]);
  if (state.data !== null) return <Dashboard editing={state.data} />;
  return (
    <>
      <PageHeading of="dashboards" title={shown(name, 140)} />
      <div class="panel">
        <Condition of={{ ...state, staleSince: null, again: () => setTries(tries + 1) }} />
      </div>
    </>
  );
}

/** The choices of the bar; the address contains them, so that a link repeats them. */
function useChosen(name: string): [Chosen, (chosen: Chosen) => void] {
  const [chosen, setChosen] = useState(() => readChosen(location.hash));
  useEffect(() => {
    const read = () => setChosen(readChosen(location.hash));
    window.addEventListener('hashchange', read);
    window.addEventListener('popstate', read);
    return () => {
      window.removeEventListener('hashchange', read);
      window.removeEventListener('popstate', read);
    };
  }, []);
  const choose = (next: Chosen) => {
    setChosen(next);
    window.history.replaceState(null, '', `${addressOf('dashboards', name)}${writeChosen(next)}`);
  };
  return [chosen, choose];
}

function Dashboard({ editing }: { editing: Editing }): JSX.Element {
  const [chosen, choose] = useChosen(editing.name);
  const [box, setBox] = useElement<HTMLDivElement>();
  const [full, changeFull] = useFullScreen(box);
  const [form, setForm] = useState<{ panel: Panel; isNew: boolean } | null>(null);
  const dashboard = editing.dashboard.value;
  const { panels } = dashboard;
  const settings = settingsOf(dashboard, chosen);
  const isEditing = editing.editing.value && !full;
  const timeKey = formatJson(settings.time as never);
  const begun = useMemo(serverNow, [timeKey]);
  useEffect(() => {
    // Another browser may know zones that this one does not.
    pageZone.value = isZone(settings.zone) ? settings.zone : null;
  }, [settings.zone]);
  useEffect(() => () => {
    pageZone.value = null;
  }, []);
  const surround: Surround = { values: settings.values, time: settings.time, refreshMs: settings.refreshMs, begun };
  const put = (next: Panel[]) => editing.change({ ...dashboard, panels: next });
  const actions = {
    moved: put,
    edit: (panel: Panel) => setForm({ panel, isNew: false }),
    duplicate: (panel: Panel) => put([...panels, { ...panel, id: freshId(panels), ...freePlace(panels, panel.w, panel.h) }]),
    remove: (panel: Panel) => put(panels.filter(({ id }) => id !== panel.id)),
  };
  const add = () => setForm({ panel: { id: freshId(panels), ...freePlace(panels, 6, 8), source: { kind: 'live', text: '' } }, isNew: true });
  return (
    <div class={full ? 'dashboard full' : 'dashboard'} ref={setBox}>
      <PageHeading of="dashboards" title={shown(dashboard.title, 200)}>
        <Heading editing={editing} full={full} changeFull={changeFull} />
      </PageHeading>
      {!readOnly && !full && <EditTools editing={editing} add={add} put={put} />}
      {dashboard.description !== undefined && !full && <Markdown text={dashboard.description} />}
      <Bar dashboard={dashboard} settings={settings} chosen={chosen} choose={choose} />
      {panels.length === 0 && <p class="panel waiting">This dashboard has no panel yet.</p>}
      <PanelGrid panels={panels} surround={surround} actions={isEditing ? actions : null} />
      {form !== null && <PanelForm panel={form.panel} isNew={form.isNew} onApply={(panel) => (put(withPanel(panels, panel)), setForm(null))} onClose={() => setForm(null)} />}
      {(chosen.values.size > 0 || chosen.time !== null || chosen.zone !== null) && (
        <p>
          <button type="button" class="quiet" onClick={() => choose(NOTHING)}>
            Back to the values of the dashboard
          </button>
        </p>
      )}
    </div>
  );
}

function withPanel(panels: readonly Panel[], panel: Panel): Panel[] {
  const next = panels.some(({ id }) => id === panel.id) ? panels.map((one) => (one.id === panel.id ? panel : one)) : [...panels, panel];
  return move(next, panel.id, panel);
}

function Heading({ editing, full, changeFull }: { editing: Editing; full: boolean; changeFull(): void }): JSX.Element {
  const file = () => download(`${editing.name}.json`, [`${formatJson(jsonOf(editing.dashboard.value), 2)}\n`], 'application/json');
  return (
    <>
      {!readOnly && !full && (
        <button type="button" aria-pressed={editing.editing.value} onClick={() => (editing.editing.value = !editing.editing.value)}>
          Edit
        </button>
      )}
      <button type="button" aria-pressed={full} onClick={changeFull}>
        {full ? 'Leave full screen' : 'Full screen'}
      </button>
      {!full && (
        <Menu label="Share" quiet>
          {(close) => (
            <>
              <button type="button" onClick={() => (close(), void copyLink(location.hash))}>
                Copy link
              </button>
              <button type="button" onClick={() => (close(), file())}>
                Export as JSON
              </button>
            </>
          )}
        </Menu>
      )}
    </>
  );
}
