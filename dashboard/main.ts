// The dashboard's first file: watches the gateway and draws what it says.

import { h, render } from 'preact';
import { GatewayWatch, type View } from './gateway-watch.ts';
import { Page } from './page.ts';

const root = document.getElementById('page') as HTMLElement;
const draw = (view: View) => render(h(Page, { view }), root);
draw(new GatewayWatch(draw).view);
