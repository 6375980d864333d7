/** Colours of curves and maps in both themes. Curves differ by dashes too, so colour is never alone. */

const LIGHT = ['#0b62c4', '#c2410c', '#15803d', '#8b2fc9', '#a16207', '#0e7490', '#be185d', '#4d7c0f', '#5b4bd6', '#475569', '#9f1239', '#0f766e'];
const DARK = ['#6cb2ff', '#ff9d66', '#5fd38d', '#cf9dff', '#f0c04f', '#4fd1e5', '#ff8ac0', '#b3dd5b', '#a5a1ff', '#a8b5c4', '#ff8f9c', '#5fd6c3'];
const DASHES: number[][] = [[], [], [], [], [6, 3], [6, 3], [6, 3], [6, 3], [2, 3], [2, 3], [2, 3], [2, 3]];

export interface Ink {
  text: string;
  dim: string;
  line: string;
  panel: string;
}

export const ink = (dark: boolean): Ink =>
  dark
    ? { text: '#e4e9ef', dim: '#9eabb9', line: '#2a3440', panel: '#171d25' }
    : { text: '#1b222c', dim: '#566170', line: '#e1e6ec', panel: '#ffffff' };

export function seriesColour(index: number, dark: boolean, others = false): string {
  if (others) return dark ? '#7d8a99' : '#7a8694';
  const colours = dark ? DARK : LIGHT;
  return colours[index % colours.length] as string;
}

export const seriesDash = (index: number): number[] => DASHES[index % DASHES.length] as number[];

/** The background of a heat map's cell for a share from 0 to 1, and the text colour that can be read on it. */
export function heatColour(share: number, dark: boolean): { background: string; text: string } {
  const clamped = Math.max(0, Math.min(1, share));
  const from = dark ? [26, 35, 46] : [240, 246, 253];
  const to = dark ? [108, 178, 255] : [11, 79, 158];
  const mixed = from.map((low, i) => Math.round(low + ((to[i] as number) - low) * Math.sqrt(clamped)));
  const [r, g, b] = mixed.map((c) => {
    const s = c / 255;
    return s <= 0.03928 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  const luminance = 0.2126 * r + 0.7152 * g + 0.0722 * b;
  return { background: `rgb(${mixed.join(' ')})`, text: luminance > 0.179 ? '#000000' : '#ffffff' };
}
