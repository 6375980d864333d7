/** The menu of a result that puts its query onto a dashboard, with the picture that it has. */
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { type DashboardFacts, dashboardsByName, readLastDashboards } from './dashboard_list.ts';
import { isOffered, withLater } from './page_table.ts';
import type { Picture } from './picture.ts';
import { go } from './route.ts';
import { readOnly } from './settings.ts';
import { type Tab, questionOf } from './tabs.ts';
import { cut, visible } from './text.ts';
import { Dialog, Menu, toast } from './ui.tsx';

const LISTED = 100;

export function OntoDashboard({ tab, picture }: { tab: Tab; picture: Picture }): JSX.Element | null {
  const [isNew, setIsNew] = useState(false);
  if (readOnly || isOffered('dashboards') !== true) return null;
  const add = (name: string, create: boolean) =>
    void withLater(async (later) => {
      try {
        await later.addQuery(name, create, { question: tab.asked.value ?? questionOf(tab), form: picture.form, measure: tab.view.value.measure });
        void readLastDashboards();
        setIsNew(false);
        toast(`Added to ${visible(cut(name, 60))}.`);
        if (create) go('dashboards', name);
      } catch (error) {
        toast(visible(cut(`It was not added: ${error instanceof Error ? error.message : ''}`, 300)));
      }
    });
  return (
    <>
      <Menu label="Onto a dashboard" quiet>
        {(close) => <Choices choose={(name) => (close(), add(name, false))} create={() => (close(), setIsNew(true))} />}
      </Menu>
      {isNew && <NewDialog create={(name) => add(name, true)} onClose={() => setIsNew(false)} />}
    </>
  );
}

function Choices({ choose, create }: { choose(name: string): void; create(): void }): JSX.Element {
  const [listed, setListed] = useState<DashboardFacts[] | 'failed' | null>(null);
  useEffect(() => {
    let gone = false;
    dashboardsByName(LISTED).then(
      (found) => !gone && setListed(found),
      () => !gone && setListed('failed'),
    );
    return () => {
      gone = true;
    };
  }, []);
  if (listed === null) return <p class="dim">Loading…</p>;
  return (
    <>
      {listed === 'failed' && <p class="dim">The dashboards cannot be listed now.</p>}
      {(listed === 'failed' ? [] : listed).map(({ name }) => (
        <button key={name} type="button" onClick={() => choose(name)}>
          {visible(cut(name, 60))}
        </button>
      ))}
      <button type="button" onClick={create}>
        A new dashboard…
      </button>
    </>
  );
}

function NewDialog({ create, onClose }: { create(name: string): void; onClose(): void }): JSX.Element {
  const [name, setName] = useState('');
  return (
    <Dialog title="A new dashboard with this query" onClose={onClose}>
      <form
        class="bar"
        onSubmit={(event) => {
          event.preventDefault();
          if (name.trim() !== '') create(name.trim());
        }}
      >
        <label class="select">
          <span>Name</span>
          <input type="text" autocomplete="off" spellcheck={false} value={name} onInput={(event) => setName(event.currentTarget.value)} />
        </label>
        <button type="submit" class="primary" disabled={name.trim() === ''}>
          Create
        </button>
      </form>
    </Dialog>
  );
}
