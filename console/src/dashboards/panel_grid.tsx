/**
 * The panels of a dashboard on their grid. In edit mode they move and change their size by pointer and by keys.
 *
 * A drag shows where the panels would be, and is one change when it ends; Escape takes it back. Keys: the arrow keys move the focused
 * panel, Shift and the arrow keys change its size. On a narrow screen the panels are below each other, and have no handles.
 */
import type { JSX } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { shown } from '../parts.tsx';
import { Icon, announce } from '../ui.tsx';
import { type Panel, nameOf } from './document.ts';
import { COLUMNS, type Place, inside, move, readingOrder } from './layout.ts';
import type { Surround } from './panel_data.ts';
import { PanelContent } from './panel_view.tsx';

/** As in the style sheet. */
const ROW_PX = 40;
const GAP_PX = 8;

export interface PanelActions {
  moved(panels: Panel[]): void;
  edit(panel: Panel): void;
  duplicate(panel: Panel): void;
  remove(panel: Panel): void;
}

const placeText = ({ x, y, w, h }: Place): string => `column ${x + 1}, row ${y + 1}, ${w} wide, ${h} high`;

const STEPS: { [key: string]: [number, number] } = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** The place after a key; null if the key has no such meaning. */
function placeAfter(event: KeyboardEvent, { x, y, w, h }: Place, how: 'move' | 'resize'): Place | null {
  const step = STEPS[event.key];
  if (step === undefined || event.ctrlKey || event.altKey || event.metaKey) return null;
  if (how === 'move' && !event.shiftKey) return inside({ x: x + step[0], y: y + step[1], w, h });
  return inside({ x, y, w: Math.min(COLUMNS - x, Math.max(1, w + step[0])), h: h + step[1] });
}

interface Drag {
  how: 'move' | 'resize';
  id: string;
  from: Place;
  startX: number;
  startY: number;
  columnPx: number;
  /** The place that is shown, in words. */
  shown: string;
}

/** Where a drag has brought its panel. */
function placeOf(drag: Drag, event: PointerEvent): Place {
  const across = Math.round((event.clientX - drag.startX) / drag.columnPx);
  const down = Math.round((event.clientY - drag.startY) / (ROW_PX + GAP_PX));
  const { x, y, w, h } = drag.from;
  return drag.how === 'move' ? inside({ x: x + across, y: y + down, w, h }) : inside({ x, y, w: Math.min(COLUMNS - x, Math.max(1, w + across)), h: h + down });
}

/** The handlers of a drag over the grid in `grid`. */
function useDrag(panels: readonly Panel[], done: (panels: Panel[]) => void) {
  const grid = useRef<HTMLDivElement>(null);
  const drag = useRef<Drag | null>(null);
  const [preview, setPreview] = useState<Panel[] | null>(null);
  const finish = (panel: Panel | undefined, next: Panel[] | null) => {
    drag.current = null;
    setPreview(null);
    if (next === null || panel === undefined) return;
    done(next);
    const now = next.find(({ id }) => id === panel.id);
    if (now !== undefined) announce(`${shown(nameOf(now))}: ${placeText(now)}`);
  };
  const handlers = (panel: Panel, how: Drag['how']) => ({
    onPointerDown: (event: PointerEvent) => {
      if (event.button !== 0 || grid.current === null || !(event.currentTarget instanceof HTMLElement)) return;
      event.currentTarget.setPointerCapture(event.pointerId);
      const columnPx = (grid.current.clientWidth + GAP_PX) / COLUMNS;
      drag.current = { how, id: panel.id, from: panel, startX: event.clientX, startY: event.clientY, columnPx, shown: placeText(panel) };
    },
    onPointerMove: (event: PointerEvent) => {
      if (drag.current?.id !== panel.id) return;
      const to = placeOf(drag.current, event);
      const place = placeText(to);
      if (place === drag.current.shown) return;
      drag.current.shown = place;
      setPreview(move(panels, panel.id, to));
    },
    onPointerUp: (event: PointerEvent) => {
      if (drag.current?.id === panel.id) finish(panel, move(panels, panel.id, placeOf(drag.current, event)));
    },
    onPointerCancel: () => finish(undefined, null),
    onKeyDown: (event: KeyboardEvent) => {
      if (event.key === 'Escape' && drag.current !== null) finish(undefined, null);
    },
  });
  return { grid, preview, handlers };
}

export function PanelGrid({ panels, surround, actions }: { panels: readonly Panel[]; surround: Surround; actions: PanelActions | null }): JSX.Element {
  const { grid, preview, handlers } = useDrag(panels, (next) => actions?.moved(next));
  const editing = actions !== null;
  // In edit mode the elements keep their order, so that a panel that moves keeps the focus.
  const places = preview ?? panels;
  const listed = editing ? places : readingOrder(places);
  const keyed = (event: KeyboardEvent, panel: Panel, how: 'move' | 'resize' = 'move') => {
    const to = placeAfter(event, panel, how);
    if (to === null || actions === null) return;
    event.preventDefault();
    event.stopPropagation();
    const next = move(panels, panel.id, to);
    actions.moved(next);
    announce(`${shown(nameOf(panel))}: ${placeText(next.find(({ id }) => id === panel.id) ?? to)}`);
  };
  // The focused button goes with its panel.
  const removed = (panel: Panel) => {
    actions?.remove(panel);
    announce(`${shown(nameOf(panel))} is removed.`);
    grid.current?.focus({ preventScroll: true });
  };
  return (
    <div class={preview === null ? 'dash-grid' : 'dash-grid dragging'} ref={grid} tabIndex={-1} role="group" aria-label="Panels">
      {listed.map((panel) => (
        <section
          key={panel.id}
          class="dash-panel"
          role={editing ? 'group' : undefined}
          aria-label={shown(nameOf(panel))}
          aria-description={editing ? `${placeText(panel)}. Arrow keys move the panel, Shift and the arrow keys change its size.` : undefined}
          tabIndex={editing ? 0 : undefined}
          style={{ gridArea: `${panel.y + 1} / ${panel.x + 1} / span ${panel.h} / span ${panel.w}`, order: panel.y * COLUMNS + panel.x, '--height': `${panel.h * (ROW_PX + GAP_PX) - GAP_PX}px` }}
          onKeyDown={(event) => event.target === event.currentTarget && keyed(event, panel)}
        >
          <header>
            <h2 title={shown(nameOf(panel), 200)}>{shown(nameOf(panel), 200)}</h2>
            <span class="spring" />
            {actions !== null && <PanelButtons panel={panel} actions={{ ...actions, remove: removed }} />}
            {editing && (
              <button type="button" class="quiet handle" aria-label={`Move ${shown(nameOf(panel))}`} title="Drag, or use the arrow keys" {...handlers(panel, 'move')} onKeyDownCapture={(event) => keyed(event, panel)}>
                <Grip />
              </button>
            )}
          </header>
          <PanelContent panel={panel} surround={surround} />
          {editing && (
            <button type="button" class="quiet handle corner" aria-label={`Resize ${shown(nameOf(panel))}`} title="Drag, or use the arrow keys" {...handlers(panel, 'resize')} onKeyDownCapture={(event) => keyed(event, panel, 'resize')}>
              <Corner />
            </button>
          )}
        </section>
      ))}
    </div>
  );
}

function PanelButtons({ panel, actions }: { panel: Panel; actions: PanelActions }): JSX.Element {
  const name = shown(nameOf(panel));
  return (
    <>
      <button type="button" class="quiet" aria-label={`Edit ${name}`} onClick={() => actions.edit(panel)}>
        Edit
      </button>
      <button type="button" class="quiet" aria-label={`Duplicate ${name}`} title="Duplicate" onClick={() => actions.duplicate(panel)}>
        <Icon name="add" />
      </button>
      <button type="button" class="quiet" aria-label={`Remove ${name}`} title="Remove" onClick={() => actions.remove(panel)}>
        <Icon name="close" />
      </button>
    </>
  );
}

const Grip = (): JSX.Element => (
  <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
    <path d="M8 2v12M2 8h12M6 4l2-2 2 2M6 12l2 2 2-2M4 6 2 8l2 2M12 6l2 2-2 2" />
  </svg>
);

const Corner = (): JSX.Element => (
  <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
    <path d="M13 5v8H5M13 9v4H9" />
  </svg>
);
