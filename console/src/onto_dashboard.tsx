/** The menu of a result that puts its query onto a dashboard, with the picture that it has. */
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { isOffered, laterPages } from './page_table.ts';
import type { Picture } from './picture.ts';
import { go } from './route.ts';
import { dashboards, readDashboards } from './saved_list.ts';
import { type Tab, questionOf } from './tabs.ts';
import { cut, visible } from './text.ts';
import { Dialog, Menu, toast } from './ui.tsx';

const LISTED = 100;
/** As in `objects.ts`, which is not loaded with Ask. */
const readOnly = document.documentElement.dataset.mode === 'read_only';

export function OntoDashboard({ tab, picture }: { tab: Tab; picture: Picture }): JSX.Element | null {
  const [isNew, setIsNew] = useState(false);
  if (readOnly || isOffered('dashboards') !== true) return null;
  const add = async (name: string, create: boolean) => {
    const later = await laterPages();
    if (later === null) {
      toast('The page of dashboards cannot be loaded now.');
      return;
    }
    try {
      await later.addQuery(name, create, { question: tab.asked.value ?? questionOf(tab), form: picture.form, measure: tab.view.value.measure });
      void readDashboards();
      setIsNew(false);
      toast(`Added to ${visible(cut(name, 60))}.`);
      if (create) go('dashboards', name);
    } catch (error) {
      toast(visible(cut(`It was not added: ${error instanceof Error ? error.message : ''}`, 300)));
    }
  };
  return (
    <>
      <Menu label="Onto a dashboard" quiet>
        {(close) => <Choices choose={(name) => (close(), void add(name, false))} create={() => (close(), setIsNew(true))} />}
      </Menu>
      {isNew && <NewDialog create={(name) => void add(name, true)} onClose={() => setIsNew(false)} />}
    </>
  );
}

function Choices({ choose, create }: { choose(name: string): void; create(): void }): JSX.Element {
  useEffect(() => void readDashboards(), []);
  return (
    <>
      {(dashboards.value ?? []).slice(0, LISTED).map(({ name }) => (
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
