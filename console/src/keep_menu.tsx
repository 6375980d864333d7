/** The menu *Keep* of a result. Its list is in `pages.js`, as it is not needed for the first answer. */
import type { JSX } from 'preact';
import { useEffect } from 'preact/hooks';
import { loadPages, loading } from './page_table.ts';
import { readOnly } from './settings.ts';
import type { Tab } from './tabs.ts';
import { Menu } from './ui.tsx';

export function KeepMenu({ tab }: { tab: Tab }): JSX.Element | null {
  if (readOnly) return null;
  return (
    <Menu label="Keep" quiet>
      {(close) => <KeepItems tab={tab} close={close} />}
    </Menu>
  );
}

function KeepItems({ tab, close }: { tab: Tab; close(): void }): JSX.Element {
  useEffect(() => void loadPages(), []);
  const state = loading.value;
  if (state === null || typeof state !== 'object') return <p class="dim">{state === 'failed' ? 'This list cannot be loaded now.' : 'Loading…'}</p>;
  const Items = state.later.KeepItems;
  return <Items tab={tab} close={close} />;
}
